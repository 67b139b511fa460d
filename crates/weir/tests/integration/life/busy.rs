//! A function that a thread stands in the first bytes of when weir comes.

use std::process::Command;

use nix::sys::signal::Signal;
use testkit::Daemon;
use testkit::paths::quoted;
use testkit::target::{self, Source};

use crate::life::worker::{DEADLINE, number, weir};

/// `held` reads memory in what a jump would displace. One thread has it read nothing there, and stays in its handler, which returns
/// to that instruction, until `go`. A number is how often `held` is called then; each is answered.
const HOLDER: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <semaphore.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <ucontext.h>
    __asm__(".pushsection .text\n.globl held\n.type held, @function\nheld: push %rbx\n mov (%rdi), %rax\n add $7, %rax\n pop %rbx\n ret\n"
            ".size held, . - held\n.popsection");
    long held(const long *);
    static long nothing;
    static sem_t inside, released;
    static void on_fault(int number, siginfo_t *info, void *context) {
        (void)number; (void)info;
        sem_post(&inside);
        while (sem_wait(&released)) ;
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_RDI] = (long)&nothing;
    }
    static void *hold(void *arg) { if (held(arg) != 7) abort(); return arg; }
    int main(void) {
        pthread_t thread;
        struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
        sem_init(&inside, 0, 0); sem_init(&released, 0, 0);
        setvbuf(stdout, 0, _IOLBF, 0);
        sigaction(SIGSEGV, &action, 0);
        if (pthread_create(&thread, 0, hold, 0)) return 1;
        sem_wait(&inside);
        puts("ready");
        for (char line[32]; fgets(line, sizeof line, stdin);) {
            if (!strcmp(line, "go\n")) { sem_post(&released); pthread_join(thread, 0); }
            for (int i = 0, n = atoi(line); i < n; i++) if (held(&nothing) != 7) abort();
            printf("done %s", line);
        }
        return 0;
    }
"#;

#[test]
fn a_function_that_a_thread_stands_in_is_probed_when_it_has_left() {
    let path = target::build("holder", Source::Text(HOLDER), &["-O1", "-pthread"]);
    let mut holder = Daemon::spawn(Command::new(&path)).unwrap();
    holder.line_with("ready", DEADLINE).unwrap();
    let path = quoted(&path);
    // With something that can be probed at once, or there would be no run. `main` is not called again.
    let probes = format!("uprobe:{path}:held, uprobe:{path}:main {{ @held = count(); }}");
    // What it says is read as it says it.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(weir().get_program());
    command.args([
        "trace",
        "-v",
        "-e",
        &format!("config = {{ missing_probes = \"warn\" }} {} {probes}", crate::life::worker::BEGUN),
    ]);
    command.args(["-p", &holder.pid().to_string()]);
    let mut weir = Daemon::spawn(command).unwrap();
    weir.line_with("held: busy: thread", DEADLINE).unwrap();
    weir.line_with("begun", DEADLINE).unwrap();
    let mut tell = |what: &str| {
        holder.write(&format!("{what}\n")).unwrap();
        assert_eq!(holder.line(DEADLINE).unwrap(), format!("done {what}"));
    };
    tell("10");
    tell("go");
    weir.line_with("probed now, which was refused at first", DEADLINE).unwrap();
    tell("100");
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert_eq!(number(&ended.stdout, "@held"), Some(100), "{ended:?}");
    assert!(ended.stdout.contains("2 places: 2 probed"), "{ended:?}");
    holder.close_stdin();
    assert!(holder.finish(DEADLINE).unwrap().status.success());
}
