/* A wall clock that tests move: LD_PRELOAD of this library adds the seconds in the file $CLOCK_SHIFT to CLOCK_REALTIME.
 *
 * The monotonic clock stays as it is, as when an operator or a time server sets a machine's clock. Debian's libfaketime
 * cannot do that for Python 3.11, whose sleep waits for an absolute monotonic time: it makes that time invalid.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long read_shift(void) {
    static __thread time_t read_at = -1;
    static __thread long shift = 0;
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec == read_at) return shift;
    read_at = now.tv_sec;
    const char *path = getenv("CLOCK_SHIFT");
    char text[32];
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return shift = 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    return shift = atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += read_shift();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int result = syscall(SYS_gettimeofday, now, zone);
    if (result == 0 && now) now->tv_sec += read_shift();
    return result;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
