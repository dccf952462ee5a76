/* For user-mode Linux before 6.13 on processors with AMX: preloaded into linux.uml by .ci/in-uml.
 *
 * Its buffer for a processor's extended state ends before the tiles of AMX, and the host takes only the whole state
 * (xstateregs_set in arch/x86/kernel/fpu/regset.c): it dies with "ptrace set fp regs failed, errno = 14". Here the whole
 * state is read, and only its beginning, which that buffer holds, is given to it and taken from it.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define WHOLE 32768

static long call(long request, long pid, void *address, void *data) {
    return syscall(SYS_ptrace, request, pid, address, data);
}

long ptrace(enum __ptrace_request request, ...) {
    va_list arguments;
    va_start(arguments, request);
    long pid = va_arg(arguments, int);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);

    if ((request == PTRACE_GETREGSET || request == PTRACE_SETREGSET) && (long)address == NT_X86_XSTATE) {
        static __thread char whole[WHOLE] __attribute__((aligned(64)));
        struct iovec *part = data, all = {whole, sizeof whole};
        long result = call(PTRACE_GETREGSET, pid, address, &all);
        if (result < 0)
            return result;
        size_t size = part->iov_len < all.iov_len ? part->iov_len : all.iov_len;
        if (request == PTRACE_GETREGSET) {
            memcpy(part->iov_base, whole, size);
            part->iov_len = size;
            return result;
        }
        memcpy(whole, part->iov_base, size);
        return call(PTRACE_SETREGSET, pid, address, &all);
    }
    if (request >= PTRACE_PEEKTEXT && request <= PTRACE_PEEKUSER) { /* the word read is the result, as in libc */
        long word = 0, result = call(request, pid, address, &word);
        return result < 0 ? result : word;
    }
    return call(request, pid, address, data);
}
