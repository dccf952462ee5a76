/* floor N SLOTS COMMAND [ARG...]: run COMMAND N times, SLOTS at a time, with nothing else to do: no limits, no output,
 * no records. What this takes is the least that any runner of programs can take here. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    long left = atol(argv[1]), slots = atol(argv[2]), busy = 0;
    int failed = 0, status;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (;;) {
        if (left && busy < slots) {
            pid_t child = vfork();
            if (child == 0) {
                execv(argv[3], argv + 3);
                _exit(127);
            }
            if (child < 0)
                return 3;
            left--, busy++;
        } else if (wait(&status) > 0) {
            busy--;
            failed |= status;
        } else
            break;
    }
    return failed != 0;
}
