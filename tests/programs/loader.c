/* Loads a library (loaded.c) and unloads it, as it is told: by its arguments behind the library's path, or else by lines.
 *
 *   load         loads it, and calls `probed` ten times at once
 *   call N       so many more calls
 *   guard        calls `guarded` once, and says whether that was prepared
 *   nest         calls `nested` once, which calls `probed` twice
 *   unload
 *   cycles N     N times: loads it, calls `probed` three times, unloads it
 *   copy         loads a copy of it into a namespace of its own, and calls `probed` of that four times
 *   threads N M  N threads, M cycles each, in which nobody waits for the others
 *   fork         a child loads it, calls `probed` and ends
 *   occupy       maps memory where its semaphore was, full of ones, and says later (`look`) whether it is still
 *   look
 *   hurry        from now on the kernel refuses the wait for weir, which is so always a step behind
 *   note         where `probed` is in its file
 *   half         maps its text with other bytes there, as a loader that is not done with it, and tells debuggers
 *   whole        maps over that what the file has, tells debuggers again, and calls `probed` there five times
 *   lose         writes what the file has for `probed` over it, as if that part were mapped anew, and tells debuggers
 *   again        tells debuggers, and calls `probed` there once
 *   wait         until a line comes
 *
 * Each answers with its name, and how often `probed` was called in this process so far. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#endif

static const char *path;
static void *library;
static atomic_long calls;
static int cycles_each;
static unsigned short *semaphore;

static void *load(void) {
    void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL) {
        printf("%s\n", dlerror());
        exit(1);
    }
    return loaded;
}

static void call_at(int (*probed)(int), long count) {
    for (long i = 0; i < count; i++) {
        if (probed((int)i) != (int)i * 3 + 1) {
            abort();
        }
    }
    atomic_fetch_add(&calls, count);
}

static void call(void *loaded, long count) {
    call_at((int (*)(int))dlsym(loaded, "probed"), count);
}

static void *cycles(void *count) {
    for (long left = (long)count; left > 0; left--) {
        void *loaded = load();
        call(loaded, 3);
        dlclose(loaded);
    }
    return NULL;
}

static void in_threads(int count) {
    pthread_t threads[64];
    for (int i = 0; i < count; i++) {
        pthread_create(&threads[i], NULL, cycles, (void *)(long)cycles_each);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void in_child(void) {
    pid_t child = fork();
    if (child == 0) {
        void *loaded = load();
        call(loaded, 5);
        _exit(dlclose(loaded));
    }
    int status = 1;
    waitpid(child, &status, 0);
    printf("child %d\n", status);
}

static void occupy(void) {
    char *page = (char *)((unsigned long)semaphore & -4096);
    int file = memfd_create("another", 0);
    char ones[4096];
    memset(ones, 1, sizeof ones);
    if (write(file, ones, sizeof ones) != sizeof ones
        || mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0) != page) {
        puts("no room");
        exit(1);
    }
}

/* FUTEX_WAIT_BITSET on memory that may be shared: the C library's own are on private memory. */
static void hurry(void) {
#ifdef __GLIBC__
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT_BITSET, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        puts("no filter");
        exit(1);
    }
#endif
}

static void copy(void) {
#ifdef __GLIBC__
    call(dlmopen(LM_ID_NEWLM, path, RTLD_NOW), 4);
#endif
}

/* The library's text: where it is in the file, its bytes, and where `probed` is in it; and a mapping of it. */
static struct { long offset, bytes, probed; char *at; } text;

static int find_text(struct dl_phdr_info *of, size_t size, void *probed) {
    (void)size;
    for (int i = 0; i < of->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &of->dlpi_phdr[i];
        unsigned long start = (of->dlpi_addr + part->p_vaddr) & -4096ul;
        if (part->p_type == PT_LOAD && (unsigned long)probed - start < part->p_memsz) {
            text.offset = (long)(part->p_offset & -4096ul);
            text.bytes = (long)((part->p_memsz + 8191) & -4096ul);
            text.probed = (long)((unsigned long)probed - start);
            return 1;
        }
    }
    return 0;
}

static void note(void) {
    void *loaded = load();
    dl_iterate_phdr(find_text, dlsym(loaded, "probed"));
    dlclose(loaded);
}

static void map_text(int is_whole) {
#ifdef __GLIBC__
    int file = open(path, O_RDONLY), flags = MAP_PRIVATE | (is_whole ? MAP_FIXED : 0);
    text.at = mmap(text.at, text.bytes, PROT_READ | PROT_WRITE | PROT_EXEC, flags, file, text.offset);
    close(file);
    if (!is_whole) {
        memset(text.at, 0xcc, 4096);
    }
#else
    (void)is_whole;
#endif
}

static void lose(void) {
    int file = open(path, O_RDONLY);
    if (pread(file, text.at + text.probed, 8, text.offset + text.probed) != 8) {
        exit(1);
    }
    close(file);
}

static void tell_debuggers(void) {
#ifdef __GLIBC__
    ((void (*)(void))_r_debug.r_brk)();
#endif
}

static void call_text(long count) {
    call_at((int (*)(int))(text.at + text.probed), count);
}

static void obey(const char *line) {
    char name[16] = "";
    long count = 0;
    sscanf(line, "%15s %ld %d", name, &count, &cycles_each);
    if (strcmp(name, "load") == 0) {
        library = load();
        call(library, 10);
        semaphore = dlsym(library, "weir_loaded_semaphore");
    } else if (strcmp(name, "call") == 0) {
        call(library, count);
    } else if (strcmp(name, "guard") == 0) {
        printf("prepared %d\n", ((int (*)(int))dlsym(library, "guarded"))(1));
    } else if (strcmp(name, "nest") == 0) {
        ((int (*)(int))dlsym(library, "nested"))(1);
        atomic_fetch_add(&calls, 2);
    } else if (strcmp(name, "unload") == 0) {
        dlclose(library);
    } else if (strcmp(name, "cycles") == 0) {
        cycles((void *)count);
    } else if (strcmp(name, "copy") == 0) {
        copy();
    } else if (strcmp(name, "threads") == 0) {
        in_threads((int)count);
    } else if (strcmp(name, "fork") == 0) {
        in_child();
    } else if (strcmp(name, "occupy") == 0) {
        occupy();
    } else if (strcmp(name, "look") == 0) {
        puts(*semaphore == 0x0101 ? "same" : "changed");
    } else if (strcmp(name, "hurry") == 0) {
        hurry();
    } else if (strcmp(name, "note") == 0) {
        note();
    } else if (strcmp(name, "half") == 0) {
        map_text(0);
        tell_debuggers();
    } else if (strcmp(name, "whole") == 0) {
        map_text(1);
        tell_debuggers();
        call_text(5);
    } else if (strcmp(name, "lose") == 0) {
        lose();
        tell_debuggers();
    } else if (strcmp(name, "again") == 0) {
        tell_debuggers();
        call_text(1);
    } else if (strcmp(name, "wait") == 0) {
        getchar();
    } else {
        exit(2);
    }
    printf("%s %ld\n", name, atomic_load(&calls));
}

int main(int count, char **arguments) {
    alarm(600);
    setvbuf(stdout, 0, _IOLBF, 0);
    path = arguments[1];
    for (int i = 2; i < count; i++) {
        obey(arguments[i]);
    }
    if (count == 2) {
        char line[64];
        printf("ready\n");
        while (fgets(line, sizeof line, stdin) != NULL) {
            obey(line);
        }
    }
    return 0;
}
