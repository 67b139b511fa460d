/* Emits events as it is told, by lines on standard input, each of which it answers when it is done:
 *   a COUNT   emits ses:one COUNT times, numbered on from the last; answers `a TOTAL`
 *   b COUNT   the same with ses:two, which has a text
 *   c COUNT   ses:one in a child that is forked for it, with thread 99 and numbers from 0; answers `c`
 *   f COUNT   the same in children that a thread forks, one after the other
 *   e         ends these; answers `e` and how many there were
 *   g COUNT   COUNT threads emit ses:one, each with numbers of its own, some thousands a second
 *   h         ends these; answers `h` and how many each has emitted
 * It ends at the end of its input. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weir/tracepoint.h"

#define THREADS_MAX 16

static atomic_int goes_on, forks;
static long counts[THREADS_MAX + 1];

static __attribute__((noinline)) void emit_one(int thread, long n)
{
	WEIR_TRACEPOINT(ses, one, (int, thread, thread), (long, n, n));
}

static __attribute__((noinline)) void emit_two(long n)
{
	char text[32];
	snprintf(text, sizeof text, "number %ld", n);
	WEIR_TRACEPOINT_LEVEL(WEIR_LEVEL_INFO, ses, two, (long, n, n), (string, text, text));
}

static void *run(void *argument)
{
	int thread = (int)(long)argument;
	while (atomic_load(&goes_on)) {
		emit_one(thread, counts[thread]++);
		/* The rate alone: the verdict is of counts. */
		usleep(100);
	}
	return NULL;
}

static void emit_in_child(long count)
{
	pid_t child = fork();
	if (child == 0) {
		alarm(600);
		for (long n = 0; n < count; n++)
			emit_one(99, n);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void *fork_on(void *argument)
{
	long children = 0;
	while (atomic_load(&forks)) {
		emit_in_child((long)argument);
		children++;
	}
	return (void *)children;
}

int main(void)
{
	pthread_t threads[THREADS_MAX + 1], forker;
	long one = 0, two = 0, running = 0, count;
	char line[64], what;
	while (fgets(line, sizeof line, stdin)) {
		count = 0;
		if (sscanf(line, "%c %ld", &what, &count) < 1)
			return 2;
		switch (what) {
		case 'a':
			for (; count > 0; count--)
				emit_one(0, one++);
			printf("a %ld\n", one);
			break;
		case 'b':
			for (; count > 0; count--)
				emit_two(two++);
			printf("b %ld\n", two);
			break;
		case 'c':
			emit_in_child(count);
			printf("%c\n", what);
			break;
		case 'f':
			atomic_store(&forks, 1);
			pthread_create(&forker, NULL, fork_on, (void *)count);
			printf("f %ld\n", count);
			break;
		case 'e': {
			void *children;
			atomic_store(&forks, 0);
			pthread_join(forker, &children);
			printf("e %ld\n", (long)children);
			break;
		}
		case 'g':
			running = count > THREADS_MAX ? THREADS_MAX : count;
			atomic_store(&goes_on, 1);
			for (long thread = 1; thread <= running; thread++)
				pthread_create(&threads[thread], NULL, run, (void *)thread);
			printf("g %ld\n", running);
			break;
		case 'h':
			atomic_store(&goes_on, 0);
			printf("h");
			for (long thread = 1; thread <= running; thread++) {
				pthread_join(threads[thread], NULL);
				printf(" %ld", counts[thread]);
			}
			printf("\n");
			break;
		default:
			return 2;
		}
		fflush(stdout);
	}
	return 0;
}
