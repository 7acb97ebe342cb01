/* A wall clock that can be moved: the time that a process sees is the true one and the seconds in a shared file.

   Preloaded into the servers of a test and, by inheritance, into their store. Clocks that only measure durations are
   left alone, as they are when somebody sets the clock of a machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *seconds;
static int (*true_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_offset(void)
{
    int file = open(OFFSET, O_RDONLY | O_CLOEXEC);

    true_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        seconds = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (true_clock == NULL)
        open_offset();
    int failed = true_clock(clock, now);
    if (!failed && seconds && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *seconds;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place)
{
    struct timespec exact;

    clock_gettime(CLOCK_REALTIME, &exact);
    if (place)
        *place = exact.tv_sec;
    return exact.tv_sec;
}
