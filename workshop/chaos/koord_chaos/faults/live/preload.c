/* Loaded into child processes (LD_PRELOAD): their clock of the day can jump, and their syncs to disk can take long.
   The file that $KOORD_CHAOS_CONTROL names holds two 64-bit integers, which another process may change at any time:
   nanoseconds to add to the clock, and nanoseconds that each sync waits first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t clock_ns;
    volatile int64_t sync_ns;
};

static struct control none;
static struct control *control = &none;

__attribute__((constructor)) static void load(void) {
    const char *path = getenv("KOORD_CHAOS_CONTROL");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED)
        control = mapped;
    close(fd);
}

static void jump(struct timespec *now) {
    int64_t ns = now->tv_nsec + control->clock_ns % 1000000000;
    now->tv_sec += control->clock_ns / 1000000000;
    if (ns < 0) {
        ns += 1000000000;
        now->tv_sec--;
    } else if (ns >= 1000000000) {
        ns -= 1000000000;
        now->tv_sec++;
    }
    now->tv_nsec = ns;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        jump(now);
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

static void wait_first(void) {
    int64_t ns = control->sync_ns;
    if (ns > 0) {
        struct timespec pause = {ns / 1000000000, ns % 1000000000};
        nanosleep(&pause, NULL);
    }
}

int fsync(int fd) {
    wait_first();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    wait_first();
    return (int)syscall(SYS_fdatasync, fd);
}
