/* Events to record, each thread its own: `record KIND THREADS COUNT [START [kill|orphan]]`. KIND: i an int and a long, s nine strings, b 64 bytes, m
 * all of these in turn. Every event carries its thread's number and its own in that thread. With START, threads wait until that file is
 * there; with `kill` they emit a few events meanwhile, and the process kills itself when its first thread has emitted COUNT more. With `orphan` it kills
 * the process that started it when all is emitted. The last line says how many events were emitted. */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir/tracepoint.h"

static char kind;
static long count;
static const char *start;
static int kills;

static void emit_ints(int thread, long n)
{
	WEIR_TRACEPOINT(rec, ints, (int, thread, thread), (long, n, n));
}

static void emit_strings(int thread, long n)
{
	char number[24], letters[32];
	snprintf(number, sizeof number, "%ld", n);
	memset(letters, 'a' + (int)(n % 26), sizeof letters);
	letters[n % 31 + 1] = 0;
	WEIR_TRACEPOINT_LEVEL(WEIR_LEVEL_INFO, rec, strings, (int, thread, thread), (long, n, n), (string, a, number),
			      (string, b, letters), (string, c, "three"), (string, d, "4"), (string, e, n % 2 ? "odd" : "even"),
			      (string, f, "six words with a few characters more"), (string, g, number), (string, h, letters),
			      (string, i, "nine"));
}

static void emit_blob(int thread, long n)
{
	unsigned char bytes[64];
	for (int i = 0; i < 64; i++)
		bytes[i] = (unsigned char)(n + i);
	WEIR_TRACEPOINT_LEVEL(WEIR_LEVEL_DEBUG, rec, blob, (int, thread, thread), (long, n, n),
			      (array(unsigned char, 64), bytes, bytes));
}

static void emit(int thread, long n)
{
	if (kind == 'i' || (kind == 'm' && n % 3 == 0))
		emit_ints(thread, n);
	else if (kind == 's' || (kind == 'm' && n % 3 == 1))
		emit_strings(thread, n);
	else
		emit_blob(thread, n);
}

static void *run(void *argument)
{
	int thread = (int)(long)argument;
	long n = 0, end;
	while (start && access(start, F_OK)) {
		for (end = n + 100; kills && n < end; n++)
			emit(thread, n);
		/* Between two looks: the verdict does not depend on it. */
		usleep(1000);
	}
	end = kills && thread ? LONG_MAX : n + count;
	for (; n < end; n++)
		emit(thread, n);
	if (kills)
		kill(getpid(), SIGKILL);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int number = argc > 3 ? atoi(argv[2]) : 0;
	if (number < 1 || number > 64)
		return 2;
	kind = argv[1][0];
	count = atol(argv[3]);
	start = argc > 4 ? argv[4] : NULL;
	kills = argc > 5 && !strcmp(argv[5], "kill");
	for (long thread = 0; thread < number; thread++)
		pthread_create(&threads[thread], NULL, run, (void *)thread);
	for (int thread = 0; thread < number; thread++)
		pthread_join(threads[thread], NULL);
	printf("emitted %ld\n", number * count);
	if (argc > 5)
		kill(getppid(), SIGKILL);
	return 0;
}
