/* A server whose seccomp filter kills for any system call but those it makes itself.
 *
 * seccomp [SECONDS]: prints `ready pid=N`, then calls take("good string") every millisecond until SECONDS (default 20)
 * are over or standard input ends. Prints one line:
 *   calls=N */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const char *taken;

__attribute__((noinline)) void take(const char *text)
{
	taken = text;
	__asm__ volatile("" ::: "memory");
}

static int forbid(void)
{
	/* Only what follows in main, what libc makes of it, and what ends the process. */
	static const unsigned allowed[] = {
		SYS_poll, SYS_read, SYS_write, SYS_clock_gettime, SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall,
		SYS_newfstatat, SYS_fstat, SYS_brk, SYS_lseek,
	};
	enum { COUNT = sizeof allowed / sizeof *allowed };
	struct sock_filter filter[COUNT + 3];
	filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < COUNT; i++)
		filter[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], COUNT - i, 0);
	filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = COUNT + 3, .filter = filter };
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double end = now() + (argc > 1 ? atof(argv[1]) : 20);
	alarm(600);
	printf("ready pid=%d\n", getpid());
	fflush(stdout);
	if (forbid())
		return 3;
	unsigned long calls = 0;
	while (now() < end) {
		struct pollfd input = { .fd = 0, .events = POLLIN };
		char byte;
		if (poll(&input, 1, 1) > 0 && read(0, &byte, 1) <= 0)
			break;
		take("good string");
		calls++;
	}
	printf("calls=%lu\n", calls);
	return 0;
}
