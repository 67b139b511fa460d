// Threads that have texts looked at (`vanish_look`, which a test probes) while others take the memory away that these are in,
// and bring it back. A line on standard input says for how many ms, and in which ways: "run MS WAYS", each a letter of
// u(nmap), f(ixed map), p(rotect), r(emap), b(rk), s(ignals), v(fork), k (fork); none: nobody takes anything away. It answers
// with the number of looks: "done N". Every text consists of the letter that goes with its address, or is empty.
//
// "bad N" looks at N addresses where nothing is, "again N" N times at one text of the heap (answer: ns each), "unmap N T" maps and
// unmaps N pages in each of T threads (the same), "odd N" looks N times at odd addresses while words there fault (EFLAGS.AC), "code" makes code, "tag" takes a protection key, "end" ends it. With RAW
// defined it unmaps without the C library.

#include "adversarial.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define REGIONS 16
// In memory that is the program's file, and read-only.
#define LITERAL "vvvvvvvvvvvvvvvvvvvv"
#define BYTES 65536ul
#define READERS 3
#define TAKERS 3

__attribute__((noinline, noclone)) void vanish_look(const char *text, int tag) {
    __asm__ volatile("nop\n nop\n nop\n nop\n nop" : : "r"(text), "r"(tag) : "memory");
}

static char *base, *spare, *volatile brk_text;
static volatile int stop;
static const char *volatile ways = "";
static unsigned long looks;

static int is_way(char way) { return strchr(ways, way) != 0; }

static void fill(char *at, int tag) { memset(at, tag, 24); }

static void unmap(void *at, unsigned long bytes) {
#ifdef RAW
    long result;
    __asm__ volatile("mov $11, %%eax\n syscall" : "=a"(result) : "D"(at), "S"(bytes) : "rcx", "r11", "memory");
    CHECK(result == 0);
#else
    CHECK(munmap(at, bytes) == 0);
#endif
}

static unsigned next(unsigned *random) { return (*random = *random * 1103515245 + 12345) >> 8; }

static void *map(void *at, int flags) {
    void *got = mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    CHECK(got != MAP_FAILED);
    return got;
}

// A taker has its own regions: nobody else changes them.
static void take(long number, unsigned *random) {
    int region = (int)(number + next(random) % (REGIONS / TAKERS) * TAKERS) % REGIONS;
    if (region % TAKERS != number) return;
    char *at = base + (unsigned long)region * BYTES;
    static const char all[] = "ufprb";
    char way = all[next(random) % 5];
    if (!is_way(way)) return;
    if (way == 'u') {
        unmap(at, BYTES);
        // Long enough for a table to be made without it, at times.
        // A length like any other: the verdict does not depend on it.
        if (next(random) % 64 == 0) usleep(150000);
        map(at, MAP_FIXED_NOREPLACE);
    } else if (way == 'f') {
        map(at, MAP_FIXED);
    } else if (way == 'p') {
        CHECK(mprotect(at, BYTES, PROT_NONE) == 0);
        // A length like any other: the verdict does not depend on it.
        if (next(random) % 64 == 0) usleep(150000);
        CHECK(mprotect(at, BYTES, PROT_READ | PROT_WRITE) == 0);
    } else if (way == 'r') {
        char *other = spare + (unsigned long)number * BYTES;
        CHECK(mremap(at, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
        CHECK(mmap(other, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == other);
        map(at, MAP_FIXED_NOREPLACE);
    } else if (number == 0) {
        // malloc has its own arenas in threads; the main thread waits.
        char *now = sbrk(BYTES);
        CHECK(now != (char *)-1);
        fill(now, 'z');
        brk_text = now;
        // A length like any other: the verdict does not depend on it.
        if (next(random) % 16 == 0) usleep(120000);
        CHECK(sbrk(-(long)BYTES) != (char *)-1);
    }
    fill(at, 'a' + region);
}

static void *taker(void *number) {
    unsigned random = (unsigned)(long)number + 1;
    while (!stop) {
        take((long)number, &random);
        // A moment like any other: the verdict does not depend on it.
        if (next(&random) % 8 == 0) usleep(next(&random) % 2000);
    }
    return number;
}

static void *reader(void *number) {
    unsigned random = (unsigned)(long)number + 77;
    unsigned long done = 0;
    char own[32] = "yyyyyyyyyyyyyyyy";
    char *heap = malloc(64);
    memset(heap, 'x', 32);
    heap[32] = 0;
    while (!stop) {
        int region = (int)(next(&random) % REGIONS);
        char *at = base + (unsigned long)region * BYTES;
        vanish_look(at, 'a' + region);
        vanish_look(at + 8, 'a' + region);
        vanish_look(own, 'y');
        vanish_look(heap, 'x');
        vanish_look(brk_text, 'z');
        vanish_look(LITERAL, 'v');
        done += 6;
        if (next(&random) % 256 == 0) sched_yield();
    }
    free(heap);
    __atomic_add_fetch(&looks, done, __ATOMIC_RELAXED);
    return number;
}

static void on_signal(int number) {
    (void)number;
    char text[] = "wwwwwwwwwwww";
    vanish_look(text, 'w');
    __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
}

// Children: one that shares the memory until it ends, one that has a copy.
static void children(void) {
    if (is_way('v')) {
        pid_t child = vfork();
        if (child == 0) {
            for (int n = 0; n < 50; n++) vanish_look(base, 'a');
            __atomic_add_fetch(&looks, 50, __ATOMIC_RELAXED);
            _exit(0);
        }
        CHECK(child > 0 && waitpid(child, 0, 0) == child);
    }
    if (is_way('k')) {
        pid_t child = fork();
        if (child == 0) {
            for (int n = 0; n < 50; n++) vanish_look(base, 'a');
            CHECK(munmap(base, BYTES) == 0);
            vanish_look(base, 'a');
            _exit(0);
        }
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void run(long ms) {
    pthread_t readers[READERS], takers[TAKERS];
    stop = 0;
    looks = 0;
    if (is_way('s')) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        CHECK(sigaction(SIGUSR1, &action, 0) == 0);
    }
    for (long n = 0; n < READERS; n++) CHECK(pthread_create(&readers[n], 0, reader, (void *)n) == 0);
    for (long n = 0; n < TAKERS; n++) CHECK(pthread_create(&takers[n], 0, taker, (void *)n) == 0);
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += ms % 1000 * 1000000;
    do {
        // The rate alone: the verdict does not depend on it.
        usleep(is_way('s') ? 50 : 5000);
        children();
        for (int n = 0; is_way('s') && n < READERS; n++) CHECK(pthread_kill(readers[n], SIGUSR1) == 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
    stop = 1;
    for (int n = 0; n < READERS; n++) CHECK(pthread_join(readers[n], 0) == 0);
    for (int n = 0; n < TAKERS; n++) CHECK(pthread_join(takers[n], 0) == 0);
    printf("done %lu\n", looks);
}

// A call stands between: nothing lies below the stack pointer.
static void look_checked(const char *text, int tag) {
    __asm__ volatile("pushfq\n orl $0x40000, (%%rsp)\n popfq" ::: "cc", "memory");
    vanish_look(text, tag);
    __asm__ volatile("pushfq\n andl $~0x40000, (%%rsp)\n popfq" ::: "cc", "memory");
}

static double since(struct timespec start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start.tv_sec) * 1e9 + (double)(now.tv_nsec - start.tv_nsec);
}

static long pages;

static void *unmapper(void *nothing) {
    for (long n = 0; n < pages; n++) {
        char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
        CHECK(munmap(page, 4096) == 0);
    }
    return nothing;
}

int main(void) {
    char line[64], way[32] = "";
    long count, threads = 1;
    setvbuf(stdout, 0, _IOLBF, 0);
    base = mmap(0, REGIONS * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    spare = mmap(0, TAKERS * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(spare != MAP_FAILED);
    for (int n = 0; n < REGIONS; n++) fill(base + (unsigned long)n * BYTES, 'a' + n);
    char *text = malloc(32);
    strcpy(text, "tttttttttttttt");
    brk_text = text;
    memset(text, 'z', 14);
    puts("ready");
    while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0) {
        struct timespec start;
        clock_gettime(CLOCK_MONOTONIC, &start);
        way[0] = 0;
        threads = 1;
        if (sscanf(line, "run %ld %31s", &count, way) >= 1) {
            ways = way;
            run(count);
        } else if (sscanf(line, "bad %ld", &count) == 1) {
            for (long n = 0; n < count; n++) {
                uintptr_t at = (uintptr_t)n * 0x9e3779b97f4a7c15u;
                static const uintptr_t kinds[] = {0x7ff, 0x00ffffffff000000, 0xffffffffffffffff, 0x100000fff};
                at = n % 5 == 4 ? at | 0x8000000000000000u : n % 5 == 3 ? 0x10000000 + at % 0x1000 : at & kinds[n % 3];
                if (n % 5 < 3 && n % 3 == 1) at = 0x10000 + at % 0x100000;
                vanish_look((const char *)at, 'q');
            }
            printf("done %ld\n", count);
        } else if (sscanf(line, "again %ld", &count) == 1) {
            for (long n = 0; n < count; n++) vanish_look(text, 'z');
            printf("done %.2f\n", since(start) / (double)count);
        } else if (sscanf(line, "odd %ld", &count) == 1) {
            for (long n = 0; n < count; n++) look_checked(text + 1 + n % 7, 'z');
            printf("done %ld\n", count);
        } else if (sscanf(line, "unmap %ld %ld", &pages, &threads) >= 1) {
            pthread_t all[64];
            CHECK(threads <= 64);
            for (long n = 0; n < threads; n++) CHECK(pthread_create(&all[n], 0, unmapper, 0) == 0);
            for (long n = 0; n < threads; n++) CHECK(pthread_join(all[n], 0) == 0);
            printf("done %.2f\n", since(start) / (double)pages);
        } else if (strcmp(line, "code\n") == 0) {
            CHECK(mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
            puts("done 0");
        } else if (strcmp(line, "tag\n") == 0) {
            int key = pkey_alloc(0, 0);
            printf("done %d\n", key);
        }
    }
    return 0;
}
