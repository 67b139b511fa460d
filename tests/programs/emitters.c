/* Events of many emitters at once, each with a number of its own: `emitters LEDGER THREADS COUNT CHILDREN EVENTS SIGNALS PAUSE`.
 *
 * THREADS threads emit COUNT events each (0: until SIGTERM); every SIGNALS microseconds (0: never) one of them gets SIGUSR1 or SIGUSR2,
 * whose handlers, which interrupt each other, emit too. PAUSE microseconds are slept after each 256 events. Each thread forks two children on
 * its way, which end at once. CHILDREN more are forked by the main thread; each emits EVENTS events as soon as it runs, and
 * has handlers of its own.
 *
 * LEDGER is a file that is mapped and shared with children: 8 bytes with the number of emitters, 8 with the process, then 64 bytes for each
 * emitter: process, thread (4 each), events that it has begun, and events that it has done (8 each). So a reader knows what was emitted,
 * however the program has ended. What event N of an emitter carries follows from both numbers. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weir/tracepoint.h"

#define EMITTERS_MAX 1000
#define THREADS_MAX 64

struct emitter {
	int pid, tid;
	volatile long begun, done;
	char rest[40];
};
struct ledger {
	atomic_long emitters;
	volatile long pid;
	char rest[48];
	struct emitter all[EMITTERS_MAX];
};

static struct ledger *ledger;
static long count, signals_us, pause_us;
static volatile sig_atomic_t is_ended;
static pthread_t threads[THREADS_MAX];
/* Threads that emit still. */
static atomic_int working;
/* The emitters of a thread: itself, and its two handlers. */
static __thread int own = -1;

static void become(int emitters)
{
	int first = (int)atomic_fetch_add(&ledger->emitters, emitters);
	if (first + emitters > EMITTERS_MAX)
		_exit(3);
	for (int i = first; i < first + emitters; i++) {
		ledger->all[i].pid = getpid();
		ledger->all[i].tid = (int)syscall(SYS_gettid);
	}
	own = first;
}

static void small(int emitter, long n)
{
	unsigned long mark = (unsigned long)n * 0x9e3779b97f4a7c15 ^ (unsigned long)emitter;
	short half = (short)(n * 7 - emitter);
	WEIR_TRACEPOINT(emit, small, (int, emitter, emitter), (long, n, n), (hex(unsigned long), mark, mark), (short, half, half));
}

static void text(int emitter, long n)
{
	char word[24];
	unsigned short numbers[5];
	memset(word, 'a' + (int)(n % 26), sizeof word);
	word[n % 19 + 1] = 0;
	for (int i = 0; i < 5; i++)
		numbers[i] = (unsigned short)(n + i * 1000);
	WEIR_TRACEPOINT_LEVEL(WEIR_LEVEL_INFO, emit, text, (int, emitter, emitter), (long, n, n), (string, word, word),
			      (sequence(unsigned short), numbers, numbers, (unsigned long)n % 6));
}

static void blob(int emitter, long n)
{
	unsigned char bytes[16];
	for (int i = 0; i < 16; i++)
		bytes[i] = (unsigned char)(n * 3 + i + emitter);
	WEIR_TRACEPOINT_LEVEL(WEIR_LEVEL_DEBUG, emit, blob, (int, emitter, emitter), (long, n, n),
			      (array(unsigned char, 16), bytes, bytes), (double, ratio, (double)(n % 4000) / 4));
}

/* The next event of this emitter. Nobody else emits as it. */
__attribute__((noinline)) static void emit(int emitter)
{
	struct emitter *this = &ledger->all[emitter];
	long n = this->done;
	this->begun = n + 1;
	if (n % 16 == 5)
		text(emitter, n);
	else if (n % 16 == 11)
		blob(emitter, n);
	else
		small(emitter, n);
	this->done = n + 1;
}

static void handle(int signal)
{
	int error = errno;
	if (own >= 0)
		emit(own + (signal == SIGUSR1 ? 1 : 2));
	errno = error;
}

static void end(int signal)
{
	(void)signal;
	is_ended = 1;
}

/* Forks with both signals held back in the child until it is somebody else. */
static pid_t fork_quietly(void)
{
	sigset_t both, before;
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &both, &before);
	pid_t pid = fork();
	if (pid)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid;
}

static void *run(void *unused)
{
	(void)unused;
	become(3);
	for (long n = 0; !is_ended && (count == 0 || n < count); n++) {
		emit(own);
		if (pause_us && n % 256 == 255)
			/* The rate alone: the verdict is of counts. */
			usleep((useconds_t)pause_us);
		if (count && n % (count / 2 + 1) == count / 4) {
			pid_t pid = fork_quietly();
			if (pid == 0)
				_exit(0);
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
	}
	atomic_fetch_sub(&working, 1);
	return NULL;
}

static void be_a_child(long events)
{
	sigset_t none;
	sigemptyset(&none);
	alarm(600);
	become(3);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	for (long n = 0; n < events; n++) {
		emit(own);
		if (n % 64 == 1)
			raise(SIGUSR1);
		if (n % 64 == 33)
			raise(SIGUSR2);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 8)
		return 2;
	int number = atoi(argv[2]), children = atoi(argv[4]);
	count = atol(argv[3]);
	signals_us = atol(argv[6]);
	pause_us = atol(argv[7]);
	int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (number < 1 || number > THREADS_MAX || file < 0 || ftruncate(file, sizeof *ledger))
		return 2;
	ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (ledger == MAP_FAILED)
		return 2;
	ledger->pid = getpid();
	alarm(600);
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_flags = SA_RESTART;
	action.sa_handler = handle;
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	action.sa_handler = end;
	sigaction(SIGTERM, &action, NULL);
	working = number;
	for (long i = 0; i < number; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < children; i++)
		if (fork_quietly() == 0)
			be_a_child(atol(argv[5]));
	/* Until no thread works any more; a thread that has ended is joined later, so that its number is not another's. */
	for (unsigned turn = 0; signals_us && working && !is_ended; turn++) {
		/* The rate alone: the verdict is of counts. */
		usleep((useconds_t)signals_us);
		pthread_kill(threads[turn % (unsigned)number], turn / (unsigned)number % 2 ? SIGUSR1 : SIGUSR2);
	}
	for (int i = 0; i < number; i++)
		pthread_join(threads[i], NULL);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	puts(is_ended ? "ended" : "done");
	return 0;
}
