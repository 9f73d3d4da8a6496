"""Things that lie on purpose, and suites that promises are tried with; shipped for users' own tests."""
