/* Passes pointers, most of them bad, to take(const char *), which does not follow them.
 *
 * strings MODE COUNT [wait]: COUNT bad pointers, and after every ninth a good one ("good string"). MODE:
 *   plain    from the main thread
 *   blocked  from a thread that blocks every signal, SIGSEGV and SIGBUS too
 *   handler  a SIGSEGV and SIGBUS handler is installed before the calls; after them the program makes one fault of
 *            its own, which that handler must see
 * With `wait` it prints `ready pid=N` and goes on at a line, or the end, of standard input: what a mode prepares comes
 * after that, so that a tracer can attach before. Prints one line:
 *   bad=N good=N handler_runs=N own_fault=handled|none
 * handler_runs counts the runs before the program's own fault: 0 unless a tracer let a fault through. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *taken;
static unsigned long count, bad, good;
static const char *bad_pointers[16];
static int bad_kinds;
static volatile sig_atomic_t handler_runs, expecting;
static sigjmp_buf after_fault;

__attribute__((noinline)) void take(const char *text)
{
	taken = text;
	__asm__ volatile("" ::: "memory");
}

static void on_fault(int signal)
{
	(void)signal;
	if (expecting)
		siglongjmp(after_fault, 1);
	/* A fault that is not undone repeats; end it. */
	if (++handler_runs > 1000)
		_exit(96);
}

static void prepare(void)
{
	char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(two, 'x', 4096);
	mprotect(two + 4096, 4096, PROT_NONE);
	const char *list[] = {
		NULL,
		(char *)1,
		(char *)0x8000,               /* below vm.mmap_min_addr */
		(char *)0x100000000000,       /* 16 TiB: between programs and libraries, where mmap puts nothing by itself */
		none,
		two + 4096 - 8,               /* unterminated up to the end of the page */
		two + 4095,
		two + 4096,
		(char *)0x00007ffffffff000,   /* the last user page, never mapped */
		(char *)0x0000800000000000,   /* not canonical */
		(char *)0x8000000000000000,
		(char *)0xffff800000000000,   /* kernel: start of the upper half, direct map, text, vsyscall, last bytes */
		(char *)0xffff888000000000,
		(char *)0xffffffff81000000,
		(char *)0xffffffffff600000,
		(char *)0xfffffffffffffff8,
	};
	bad_kinds = sizeof list / sizeof *list;
	memcpy(bad_pointers, list, sizeof list);
}

static void *calls(void *unused)
{
	for (bad = 0; bad < count;) {
		take(bad_pointers[bad % bad_kinds]);
		bad++;
		if (bad % 9 == 0) {
			take("good string");
			good++;
		}
	}
	return unused;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: strings plain|blocked|handler COUNT [wait]\n");
		return 2;
	}
	const char *mode = argv[1];
	count = strtoul(argv[2], NULL, 10);
	alarm(600);
	prepare();
	if (argc > 3 && strcmp(argv[3], "wait") == 0) {
		printf("ready pid=%d\n", getpid());
		fflush(stdout);
		while (getchar() > '\n')
			;
	}
	const char *own = "none";
	if (strcmp(mode, "plain") == 0) {
		calls(NULL);
	} else if (strcmp(mode, "blocked") == 0) {
		sigset_t all;
		sigfillset(&all);
		pthread_t thread;
		/* The thread is born with them blocked; the main thread keeps SIGALRM for the time limit. */
		pthread_sigmask(SIG_BLOCK, &all, NULL);
		if (pthread_create(&thread, NULL, calls, NULL) != 0)
			return 3;
		pthread_sigmask(SIG_UNBLOCK, &all, NULL);
		pthread_join(thread, NULL);
	} else if (strcmp(mode, "handler") == 0) {
		struct sigaction action = { .sa_handler = on_fault };
		sigaction(SIGSEGV, &action, NULL);
		sigaction(SIGBUS, &action, NULL);
		calls(NULL);
		expecting = 1;
		if (sigsetjmp(after_fault, 1) == 0)
			*(volatile const char *)bad_pointers[3];
		else
			own = "handled";
		expecting = 0;
	} else {
		fprintf(stderr, "unknown mode %s\n", mode);
		return 2;
	}
	printf("bad=%lu good=%lu handler_runs=%d own_fault=%s\n", bad, good, (int)handler_runs, own);
	return 0;
}
