/* A program that installs a filter in itself while it runs, which kills for the system calls that weir's code would make.
 *
 * sandbox HOW [LIBRARY]: calls take("before") 10 times, installs the filter, calls take("after") 100 times. HOW:
 *   prctl    prctl(PR_SET_SECCOMP)
 *   syscall  syscall(SYS_seccomp), after asking what the kernel knows as libseccomp does; take("asked") once in between
 *   indirect syscall(SYS_prctl)
 *   thread   as prctl, in a thread of its own, which then calls take
 *   inlined  an instruction of its own; then it waits for a line on standard input
 *   strict   prctl(PR_SET_SECCOMP) for strict mode, which leaves it read, write and exit, and no time stamp counter; it calls
 *            take("after") 20,000 times, in a second of CPU time
 * With LIBRARY it loads that, calls its plug() and unloads it, 5 times after the filter is there. Prints one line:
 *   own=N (calls of take) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static unsigned long calls;

__attribute__((noinline)) void take(const char *text)
{
	__asm__ volatile("" ::"r"(text) : "memory");
	calls++;
}

static long inlined(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
}

static void work(long rounds)
{
	for (volatile long n = 0; n < rounds; n++)
		;
}

/* Rounds of work() that take 50 microseconds of CPU time: in strict mode nobody may ask for the time. */
static long rounds_of_50_us(void)
{
	enum { ROUNDS = 5000000 };
	struct timespec before, after;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	work(ROUNDS);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	double us = (double)(after.tv_sec - before.tv_sec) * 1e6 + (double)(after.tv_nsec - before.tv_nsec) / 1e3;
	return (long)(ROUNDS * 50 / us);
}

/* In strict mode the end of the only thread is the end. */
static void strict(void)
{
	char line[40];
	long rounds = rounds_of_50_us();
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		return;
	for (int i = 0; i < 20000; i++) {
		take("after");
		work(rounds);
	}
	int bytes = snprintf(line, sizeof line, "own=%lu\n", calls);
	inlined(SYS_exit, write(1, line, (size_t)bytes) != bytes, 0, 0);
}

static int forbid(const char *how)
{
	static const unsigned forbidden[] = {
		SYS_process_vm_readv, SYS_process_vm_writev, SYS_prctl, SYS_gettid, SYS_getpid, SYS_getuid, SYS_getgid, SYS_futex,
	};
	enum { ALL = sizeof forbidden / sizeof *forbidden };
	/* Threads of musl end by futex, the last one. */
	const int COUNT = strcmp(how, "thread") ? ALL : ALL - 1;
	struct sock_filter filter[ALL + 3];
	filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < COUNT; i++)
		filter[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], COUNT - i, 0);
	filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog program = { .len = (unsigned short)(COUNT + 3), .filter = filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 1;
	if (!strcmp(how, "syscall")) {
		if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) != -1)
			return 1;
		take("asked");
		return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0;
	}
	if (!strcmp(how, "indirect"))
		return syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
	if (!strcmp(how, "inlined")) {
		if (inlined(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program))
			return 1;
		char line;
		return read(0, &line, 1) != 1;
	}
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

static void *sandboxed(void *how)
{
	if (forbid(how))
		return "it cannot be installed";
	for (int i = 0; i < 100; i++)
		take("after");
	return NULL;
}

int main(int argc, char **argv)
{
	for (int i = 0; i < 10; i++)
		take("before");
	void *failed = NULL;
	pthread_t thread;
	if (!strcmp(argv[1], "strict")) {
		strict();
		return 6;
	}
	if (!strcmp(argv[1], "thread")) {
		if (pthread_create(&thread, NULL, sandboxed, argv[1]) || pthread_join(thread, &failed))
			return 3;
	} else {
		failed = sandboxed(argv[1]);
	}
	if (failed)
		return 4;
	for (int i = 0; argc > 2 && i < 5; i++) {
		void *library = dlopen(argv[2], RTLD_NOW);
		if (!library)
			return 5;
		((void (*)(void))dlsym(library, "plug"))();
		dlclose(library);
	}
	printf("own=%lu\n", calls);
	return 0;
}
