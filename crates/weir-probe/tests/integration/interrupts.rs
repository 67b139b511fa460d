//! System calls that the kernel lets fail with EINTR when a thread is stopped in them: attaching and detaching must not be seen.

use crate::running::{Running, ms};

/// A thread in each of them. Every one must come back with its own result, and not before its time.
const CALLS: &str = r#"
    #include <linux/aio_abi.h>
    #include <linux/io_uring.h>
    #include <stddef.h>
    #include <sys/ipc.h>
    #include <sys/sem.h>
    #include <sys/socket.h>
    #include <sys/un.h>
    enum { US = 60000 };
    static struct timespec limit = { 0, US * 1000 };
    static int epoll, pair[2], full[2], listener, busy, semaphore, ring = -1;
    static aio_context_t aio;
    static const char *names[] = { "epoll_wait", "epoll_pwait", "epoll_pwait2", "recv", "recvmsg", "recvmmsg", "read", "readv", "accept", "accept4",
        "send", "sendmsg", "sendmmsg", "write", "writev", "connect", "semtimedop", "sigtimedwait", "io_getevents", "io_pgetevents", "io_uring_enter" };
    enum { CALLS = sizeof names / sizeof *names };
    static long call(int kind) {
        struct epoll_event event; char bytes[64] = { 0 };
        struct iovec vector = { bytes, sizeof bytes };
        struct mmsghdr messages = { .msg_hdr = { .msg_iov = &vector, .msg_iovlen = 1 } };
        struct sembuf down = { 0, -1, 0 };
        struct io_event done; sigset_t set;
        switch (kind) {
        case 0: return epoll_wait(epoll, &event, 1, US / 1000);
        case 1: sigemptyset(&set); return epoll_pwait(epoll, &event, 1, US / 1000, &set);
        case 2: return syscall(SYS_epoll_pwait2, epoll, &event, 1, &limit, 0, 0);
        case 3: return recv(pair[0], bytes, 1, 0);
        case 4: return recvmsg(pair[0], &messages.msg_hdr, 0);
        case 5: return recvmmsg(pair[0], &messages, 1, 0, 0);
        case 6: return read(pair[0], bytes, 1);
        case 7: return readv(pair[0], &vector, 1);
        case 8: return accept(listener, 0, 0);
        case 9: return accept4(listener, 0, 0, 0);
        case 10: return send(full[0], bytes, sizeof bytes, 0);
        case 11: return sendmsg(full[0], &messages.msg_hdr, 0);
        case 12: return sendmmsg(full[0], &messages, 1, 0);
        case 13: return write(full[0], bytes, sizeof bytes);
        case 14: return writev(full[0], &vector, 1);
        case 15: {
            struct sockaddr_un to = { .sun_family = AF_UNIX }; socklen_t length = sizeof to;
            CHECK(getsockname(busy, (struct sockaddr *)&to, &length) == 0);
            int fd = socket(AF_UNIX, SOCK_STREAM, 0); struct timeval v = { 0, US };
            CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &v, sizeof v) == 0);
            long result = connect(fd, (struct sockaddr *)&to, length); int error = errno;
            close(fd); errno = error; return result;
        }
        case 16: return semtimedop(semaphore, &down, 1, &limit);
        case 17: sigemptyset(&set); sigaddset(&set, SIGUSR2); return sigtimedwait(&set, 0, &limit);
        case 18: return syscall(SYS_io_getevents, aio, 1L, 1L, &done, &limit);
        case 19: return syscall(SYS_io_pgetevents, aio, 1L, 1L, &done, &limit, 0);
        case 20: {
            struct io_uring_getevents_arg argument = { .ts = (unsigned long)&limit };
            if (ring < 0) {
                // It is not to be had here: the verdict does not depend on this call.
                usleep(US); errno = ETIME; return -1;
            }
            return syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument, sizeof argument);
        }
        }
        return -1;
    }
    static void *block(void *kind) {
        while (!stop) {
            long from = now_us(), result = call((long)kind); int error = errno, waited = now_us() - from;
            // None of them has anything to return.
            int is_right = result == 0 || (result == -1 && (error == EAGAIN || error == ETIME));
            // Timers of sockets have ticks of up to 10 ms.
            if (!is_right || waited < US - 10000) { dprintf(1, "%s: %ld, errno %d, %d us\n", names[(long)kind], result, error, waited); _exit(9); }
            work(kind);
        }
        return 0;
    }
    static void listen_at(int fd, int backlog) {
        struct sockaddr_un any = { .sun_family = AF_UNIX };
        // A name of the kernel's choice.
        CHECK(bind(fd, (struct sockaddr *)&any, sizeof(sa_family_t)) == 0 && listen(fd, backlog) == 0);
    }
    int main(void) {
        struct timeval v = { 0, US }; char bytes[4096] = { 0 }; sigset_t set; pthread_t threads[CALLS];
        epoll = epoll_create1(0);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, full) == 0);
        CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &v, sizeof v) == 0 && setsockopt(full[0], SOL_SOCKET, SO_SNDTIMEO, &v, sizeof v) == 0);
        while (send(full[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
        while (send(full[0], bytes, 1, MSG_DONTWAIT) > 0) {}
        listener = socket(AF_UNIX, SOCK_STREAM, 0); listen_at(listener, 8);
        CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &v, sizeof v) == 0);
        busy = socket(AF_UNIX, SOCK_STREAM, 0); listen_at(busy, 0);
        struct sockaddr_un to; socklen_t length = sizeof to; int is_full = 0;
        CHECK(getsockname(busy, (struct sockaddr *)&to, &length) == 0);
        while (!is_full) is_full = connect(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&to, length) < 0;
        semaphore = semget(IPC_PRIVATE, 1, 0600); CHECK(semaphore >= 0);
        CHECK(syscall(SYS_io_setup, 4, &aio) == 0);
        struct io_uring_params params = { 0 };
        ring = syscall(SYS_io_uring_setup, 4, &params);
        sigemptyset(&set); sigaddset(&set, SIGUSR2); CHECK(sigprocmask(SIG_BLOCK, &set, 0) == 0);
        for (long i = 0; i < CALLS; i++) pthread_create(&threads[i], 0, block, (void *)i);
        begin();
        getchar(); stop = 1;
        for (int i = 0; i < CALLS; i++) pthread_join(threads[i], 0);
        CHECK(semctl(semaphore, 0, IPC_RMID) == 0);
        puts("right");
        return 0;
    }
"#;

#[test]
fn no_call_fails_for_a_stop() {
    let running = Running::start("interrupts", CALLS, &[]);
    running.cycles(20, ms(8));
    assert_eq!(running.end(), "right");
}

/// Threads that sleep under a filter that kills whoever calls restart_syscall(2).
const FILTERED: &str = r#"
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <stddef.h>
    #include <sys/prctl.h>
    enum { US = 100000 };
    static struct timespec limit = { 0, US * 1000 };
    static int word;
    static void *block(void *kind) {
        while (!stop) {
            long from = now_us(); struct timespec left = limit, at;
            switch ((long)kind) {
            // What is slept is the call that is held; the verdict depends on how long it takes at least.
            case 0: CHECK(nanosleep(&limit, 0) == 0); break;
            // As above: the verdict depends on how long it takes at least.
            case 1: CHECK(nanosleep(&left, &left) == 0); break;
            case 2: CHECK(poll(0, 0, US / 1000) == 0); break;
            case 3: CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit, 0, 0) == -1 && errno == ETIMEDOUT); break;
            case 4: {
                clock_gettime(CLOCK_MONOTONIC, &at); at.tv_nsec += US * 1000;
                if (at.tv_nsec >= 1000000000) { at.tv_nsec -= 1000000000; at.tv_sec++; }
                CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &at, 0, ~0) == -1 && errno == ETIMEDOUT); break;
            }
            }
            CHECK(now_us() - from >= US);
            work(kind);
        }
        return 0;
    }
    int main(void) {
        pthread_t threads[5];
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
        for (long i = 0; i < 5; i++) pthread_create(&threads[i], 0, block, (void *)i);
        begin();
        getchar(); stop = 1;
        for (int i = 0; i < 5; i++) pthread_join(threads[i], 0);
        puts("right");
        return 0;
    }
"#;

#[test]
fn a_filter_that_kills_for_restart_syscall_sees_none() {
    let running = Running::start("filtered", FILTERED, &[]);
    running.cycles(20, ms(8));
    assert_eq!(running.end(), "right");
}
