/* A program that works when it is told to, and says how often it has.
 *
 * worker: prints `ready pid=N`; for each line with a number calls work(1), work(2)… so often, and prints
 * `calls=TOTAL`; at the end of its input it ends with exit code 7. It needs no file, nor /proc.
 * worker NUMBER: the same for that number at once, and the end.
 * worker hidden: as without, and not dumpable.
 * worker strict: ready, then seccomp's strict mode; ends as it can there. */
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long calls, wrong;

__attribute__((noinline)) long work(long number)
{
	__asm__ volatile("" : "+r"(number));
	return number * 3 + 1;
}

static void run(long count)
{
	for (long i = 1; i <= count; i++) {
		wrong += work(i) != i * 3 + 1;
		calls++;
	}
	printf("calls=%lu%s\n", calls, wrong ? " wrong" : "");
}

static int strict(void)
{
	char byte;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		return 3;
	long got = read(0, &byte, 1);
	(void)got;
	syscall(SYS_exit, 7);
	return 4;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	alarm(600);
	int hidden = argc > 1 && !strcmp(argv[1], "hidden");
	if (hidden && prctl(PR_SET_DUMPABLE, 0))
		return 5;
	if (argc > 1 && !hidden && strcmp(argv[1], "strict")) {
		run(atol(argv[1]));
		return 7;
	}
	printf("ready pid=%d\n", (int)getpid());
	if (argc > 1 && !hidden)
		return strict();
	for (char line[32]; fgets(line, sizeof line, stdin);)
		run(atol(line));
	return 7;
}
