/* A disk that dies or lies on purpose: stands between a process and libc's file calls, for one folder.
 *
 * Loaded by LD_PRELOAD, steered from Python (tests/crash/disk.py). Every change of a watched file - write, sync,
 * truncate, create, unlink, reserve - is one numbered operation. At a chosen one the process is killed, or the call
 * fails, or writes less than it should; or all of them are recorded, so that a power failure can be played afterwards.
 * Files whose name holds "-shm" are not watched: SQLite rebuilds that index, and writes it through memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, KILL_BEFORE, KILL_AFTER, KILL_TORN, FAIL_ONCE, FAIL_FROM, SHORT_ONCE };
enum { GO, GO_THEN_DIE, TORN, FAIL, LESS };

#define FDS 4096
static char watched[FDS], wal_or_db[FDS][24];
static char folder[512];
static size_t folder_length;
static long operations, chosen, argument;
static int action, record_fd = -1;

static int (*next_open)(const char *, int, ...);
static int (*next_close)(int), (*next_fsync)(int), (*next_fdatasync)(int);
static int (*next_unlink)(const char *), (*next_ftruncate)(int, off_t), (*next_truncate)(const char *, off_t);
static ssize_t (*next_write)(int, const void *, size_t), (*next_pwrite)(int, const void *, size_t, off_t);
static int (*next_fallocate)(int, off_t, off_t);

__attribute__((constructor)) static void find(void) {
  next_open = dlsym(RTLD_NEXT, "open64");
  next_close = dlsym(RTLD_NEXT, "close");
  next_fsync = dlsym(RTLD_NEXT, "fsync");
  next_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  next_unlink = dlsym(RTLD_NEXT, "unlink");
  next_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
  next_truncate = dlsym(RTLD_NEXT, "truncate64");
  next_write = dlsym(RTLD_NEXT, "write");
  next_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  next_fallocate = dlsym(RTLD_NEXT, "posix_fallocate64");
}

void disk_watch(const char *path) {
  strncpy(folder, path, sizeof folder - 1);
  folder_length = strlen(folder);
}
void disk_arm(long at, int what, long with) { operations = 0; chosen = at; action = what; argument = with; }
long disk_operations(void) { return operations; }
void disk_record(const char *path) {
  record_fd = path ? next_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
}

struct __attribute__((packed)) entry { char kind; char name[24]; int64_t offset; uint32_t length; };

static void note(char kind, const char *name, int64_t offset, const void *data, uint32_t length) {
  struct entry head;
  if (record_fd < 0) return;
  memset(&head, 0, sizeof head);
  head.kind = kind;
  strncpy(head.name, name, sizeof head.name - 1);
  head.offset = offset;
  head.length = data ? length : 0;
  /* In one piece: threads record side by side. */
  struct iovec pieces[] = {{&head, sizeof head}, {(void *)data, head.length}};
  if (writev(record_fd, pieces, 2) != (ssize_t)(sizeof head + head.length)) abort();
}
void disk_mark(long number) { note('M', "", number, NULL, 0); }

static int is_watched(const char *path) {
  return folder_length && path && !strncmp(path, folder, folder_length) && !strstr(path, "-shm");
}
static int is_watched_fd(int fd) { return fd >= 0 && fd < FDS && watched[fd]; }
static const char *last(const char *path) { const char *slash = strrchr(path, '/'); return slash ? slash + 1 : path; }
__attribute__((noreturn)) static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

static int gate(void) {
  operations++;
  if (!chosen) return GO;
  if (action == FAIL_FROM) return operations >= chosen ? FAIL : GO;
  if (operations != chosen) return GO;
  switch (action) {
    case KILL_BEFORE: die();
    case KILL_AFTER: return GO_THEN_DIE;
    case KILL_TORN: return TORN;
    case FAIL_ONCE: return FAIL;
    case SHORT_ONCE: return LESS;
  }
  return GO;
}

static ssize_t put(int fd, const void *data, size_t length, off_t at, int here) {
  size_t some = (size_t)argument < length ? (size_t)argument : length;
  int what = gate();
  ssize_t written;
  if (here) at = lseek(fd, 0, SEEK_CUR);
  if (what == FAIL) { errno = (int)argument; return -1; }
  if (what == TORN) { if (some) next_pwrite(fd, data, some, at); die(); }
  written = next_pwrite(fd, data, what == LESS && some ? some : length, at);
  if (written > 0) {
    note('W', wal_or_db[fd], at, data, (uint32_t)written);
    if (here) lseek(fd, at + written, SEEK_SET);
  }
  if (what == GO_THEN_DIE) die();
  return written;
}
ssize_t pwrite64(int fd, const void *data, size_t length, off_t at) {
  return is_watched_fd(fd) ? put(fd, data, length, at, 0) : next_pwrite(fd, data, length, at);
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return pwrite64(fd, data, length, at); }
ssize_t write(int fd, const void *data, size_t length) {
  return is_watched_fd(fd) ? put(fd, data, length, 0, 1) : next_write(fd, data, length);
}

#define PLAIN(condition, real, after) \
  int what, result; \
  if (!(condition)) return real; \
  what = gate(); \
  if (what == FAIL) { errno = (int)argument; return -1; } \
  if (what == TORN) die(); \
  result = real; \
  if (!result) after; \
  if (what == GO_THEN_DIE) die(); \
  return result;

int fsync(int fd) { PLAIN(is_watched_fd(fd), next_fsync(fd), note('S', wal_or_db[fd], 0, NULL, 0)) }
int fdatasync(int fd) { PLAIN(is_watched_fd(fd), next_fdatasync(fd), note('S', wal_or_db[fd], 0, NULL, 0)) }
int ftruncate64(int fd, off_t size) {
  PLAIN(is_watched_fd(fd), next_ftruncate(fd, size), note('T', wal_or_db[fd], size, NULL, 0))
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int truncate64(const char *path, off_t size) {
  PLAIN(is_watched(path), next_truncate(path, size), note('T', last(path), size, NULL, 0))
}
int truncate(const char *path, off_t size) { return truncate64(path, size); }
int unlink(const char *path) { PLAIN(is_watched(path), next_unlink(path), note('U', last(path), 0, NULL, 0)) }
int posix_fallocate64(int fd, off_t at, off_t size) {
  int what;
  if (!is_watched_fd(fd)) return next_fallocate(fd, at, size);
  what = gate();
  if (what == FAIL) return (int)argument;
  if (what == TORN) die();
  note('F', wal_or_db[fd], size, NULL, 0);
  return next_fallocate(fd, at, size);
}
int posix_fallocate(int fd, off_t at, off_t size) { return posix_fallocate64(fd, at, size); }

static int opened(const char *path, int flags, mode_t mode) {
  int creating = is_watched(path) && (flags & O_CREAT) && access(path, F_OK), what = GO, fd;
  if (creating) what = gate();
  if (what == FAIL) { errno = (int)argument; return -1; }
  if (what == TORN) die();
  fd = next_open(path, flags, mode);
  if (fd >= 0 && fd < FDS) {
    watched[fd] = is_watched(path) && (flags & (O_WRONLY | O_RDWR));
    strncpy(wal_or_db[fd], last(path), sizeof wal_or_db[fd] - 1);
    if (creating) note('C', last(path), 0, NULL, 0);
  }
  if (what == GO_THEN_DIE) die();
  return fd;
}
#define OPEN \
  mode_t mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, int); va_end(more); } \
  return opened(path, flags, mode);
int open64(const char *path, int flags, ...) { OPEN }
int open(const char *path, int flags, ...) { OPEN }
int close(int fd) { if (fd >= 0 && fd < FDS) watched[fd] = 0; return next_close(fd); }
