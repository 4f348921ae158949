/*
 * A preloaded ptrace() that lets user-mode Linux 6.1 run on CPUs with a large register state (AMX).
 *
 * That release saves and restores the registers of its processes in a buffer of fixed size. Reading less than the
 * whole state is allowed, writing less is refused (EFAULT), and the guest dies before its first instruction. Here
 * a short write is filled up: the components beyond the end (the AMX tiles, which no program of the guest uses) are
 * marked as being in their initial state.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { MOST = 64 * 1024, XSTATE_BV = 512, HEADER_END = 576 };

typedef long (*ptrace_fn)(int, ...);

/* The components that lie wholly within the first `length` bytes; x87 and SSE always do. */
static uint64_t components_within(size_t length)
{
	uint64_t mask = 3;
	for (unsigned int i = 2; i < 63; i++) {
		unsigned int size, offset, c, d;
		__cpuid_count(0xd, i, size, offset, c, d);
		if (size != 0 && (size_t)offset + size <= length)
			mask |= UINT64_C(1) << i;
	}
	return mask;
}

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_fn next;
	static _Thread_local unsigned char whole[MOST];
	static size_t whole_length, mask_length;
	static uint64_t mask;

	va_list rest;
	va_start(rest, request);
	int pid = va_arg(rest, int);
	void *address = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);

	if (!next)
		next = (ptrace_fn)dlsym(RTLD_NEXT, "ptrace");
	if (request != PTRACE_SETREGSET || (uintptr_t)address != NT_X86_XSTATE)
		return next(request, pid, address, data);

	struct iovec *given = data;
	if (whole_length == 0) {
		struct iovec all = { whole, MOST };
		if (next(PTRACE_GETREGSET, pid, address, &all) != 0)
			return -1;
		whole_length = all.iov_len;
	}
	if (given->iov_len >= whole_length || given->iov_len < HEADER_END)
		return next(request, pid, address, data);

	if (mask_length != given->iov_len) {
		mask = components_within(given->iov_len);
		mask_length = given->iov_len;
	}
	uint64_t present;
	memset(whole, 0, whole_length);
	memcpy(whole, given->iov_base, given->iov_len);
	memcpy(&present, whole + XSTATE_BV, sizeof present);
	present &= mask;
	memcpy(whole + XSTATE_BV, &present, sizeof present);
	struct iovec all = { whole, whole_length };
	return next(request, pid, address, &all);
}
