/* task FILE [SECONDS]: append one line to FILE: the time of the first instruction and of the last but one, in ns of
 * CLOCK_MONOTONIC. Without SECONDS only the first, at once. Linked statically, so that the first instruction is early. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

int main(int argc, char **argv)
{
    long long begun = now();
    if (argc < 2)
        return 2;
    char line[64];
    int length;
    int file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return 3;
    if (argc > 2) {
        double seconds = atof(argv[2]);
        struct timespec nap = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
        while (nanosleep(&nap, &nap))
            ;
        length = snprintf(line, sizeof line, "%lld %lld\n", begun, now());
    } else
        length = snprintf(line, sizeof line, "%lld\n", begun);
    return write(file, line, length) != length;
}
