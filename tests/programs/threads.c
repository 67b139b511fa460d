/* Calls foo from many threads and from a signal handler that interrupts them; the total is exact.
 *
 * threads THREADS CALLS [PERIOD_US [wait]]: each thread calls foo CALLS times; every PERIOD_US (default 500; 0: never)
 * of real time a SIGALRM handler, on whichever thread the kernel picks, calls foo once more. With `wait` it prints
 * `ready pid=N` and starts at a line, or the end, of standard input. Prints one line:
 *   total=N handler=N */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

uint64_t foo_sum;
static uint64_t handler_calls;
static uint64_t calls_each;

__attribute__((noinline)) void foo(uint64_t n)
{
	foo_sum += n;
	__asm__ volatile("" ::: "memory");
}

static void on_alarm(int signal)
{
	(void)signal;
	__atomic_fetch_add(&handler_calls, 1, __ATOMIC_RELAXED);
	foo(1);
}

/* The timer takes SIGALRM, so the time limit of all test programs is a thread here. */
static void *give_up(void *unused)
{
	struct timespec left = { 600, 0 };
	/* The limit of a program that hangs: no verdict of one that does not depends on it. */
	while (nanosleep(&left, &left) != 0)
		;
	_exit(97);
	return unused;
}

static void *work(void *unused)
{
	for (uint64_t i = 0; i < calls_each; i++)
		foo(i);
	return unused;
}

static void start(pthread_t *thread, void *(*run)(void *))
{
	int fault = pthread_create(thread, NULL, run, NULL);
	if (fault != 0) {
		fprintf(stderr, "pthread_create: %s\n", strerror(fault));
		exit(3);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: threads THREADS CALLS [PERIOD_US [wait]]\n");
		return 2;
	}
	int count = atoi(argv[1]);
	calls_each = strtoull(argv[2], NULL, 10);
	long period = argc > 3 ? atol(argv[3]) : 500;
	if (count < 1 || count > 1000)
		return 2;
	sigset_t alarms;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);

	/* The watchdog takes no alarm: it calls nothing, but a handler on it would still count. */
	pthread_t watchdog, threads[1000];
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	start(&watchdog, give_up);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);

	if (argc > 4 && strcmp(argv[4], "wait") == 0) {
		printf("ready pid=%d\n", getpid());
		fflush(stdout);
		while (getchar() > '\n')
			;
	}
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	sigaction(SIGALRM, &action, NULL);
	struct itimerval timer = { { period / 1000000, period % 1000000 }, { period / 1000000, period % 1000000 } };
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i < count; i++)
		start(&threads[i], work);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	/* No alarm may be under way when the total is read: only this thread takes them now. */
	memset(&timer, 0, sizeof timer);
	setitimer(ITIMER_REAL, &timer, NULL);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	uint64_t handler = __atomic_load_n(&handler_calls, __ATOMIC_RELAXED);
	printf("total=%llu handler=%llu\n", (unsigned long long)((uint64_t)count * calls_each + handler),
	       (unsigned long long)handler);
	return 0;
}
