//! Attaching to real processes, and what cannot be attached to.

mod counting;

use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::target::{self, Source};
use testkit::wait;
use weir_probe::{Error, Launched, Target};
use weir_symbols::Binary;

use crate::counting::{arm, count};

fn wait_for_end(launched: &mut Launched) {
    assert!(
        wait::until(Duration::from_secs(60), || launched.try_wait().is_some()),
        "the target does not end"
    );
}

const CALLS: &str = r#"
    #include <stdio.h>
    __attribute__((noinline)) int foo(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    int main(void) { unsigned sum = 0; for (int i = 0; i < 100000; i++) sum += foo(i); printf("%u\n", sum); return 0; }
"#;

#[test]
fn counts_every_call_of_a_launched_program() {
    for (variant, path) in target::matrix("probe-calls", Source::Text(CALLS), &[]) {
        let command = [path.display().to_string()];
        let (mut launched, exec) =
            Launched::start(&command, None, nix::sys::signal::SigSet::empty()).unwrap();
        let binary = Binary::open(&path).unwrap();
        let target = exec.into_target(&[binary.identity().unwrap()]).unwrap();
        let attachment = arm(target, &path, &["foo"]).unwrap();
        assert_eq!(attachment.probes(), 1, "{variant:?}: {:?}", attachment.outcomes());
        wait_for_end(&mut launched);
        assert_eq!(count(&attachment), 100_000, "{variant:?}");
    }
}

const SERVER: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    static volatile int stop; static volatile unsigned long calls[8];
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x ^ 5; }
    static void *run(void *arg) { long i = (long)arg; while (!stop) { work(1); calls[i]++; } return 0; }
    int main(void) {
        alarm(60);
        pthread_t threads[4];
        for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, (void *)i);
        puts("ready"); fflush(stdout);
        getchar(); stop = 1;
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        printf("%lu\n", calls[0] + calls[1] + calls[2] + calls[3]);
        return 0;
    }
"#;

#[test]
fn attaches_to_and_leaves_running_threads() {
    let path = target::build("probe-server", Source::Text(SERVER), &["-O2", "-pthread"]);
    let mut command = Command::new(&path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = testkit::Daemon::spawn(command).unwrap();
    server.line_with("ready", Duration::from_secs(10)).unwrap();
    let pid = server.pid() as i32;
    let binary = Binary::open(&path).unwrap();
    let function = binary.find("work").unwrap()[0].clone();
    let text = |pid: i32| {
        let maps = weir_symbols::maps::read(pid as u32).unwrap();
        let at = weir_symbols::maps::to_virtual(&maps, binary.identity().unwrap(), &binary, function.address)
            .unwrap();
        let file = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        let mut bytes = vec![0; function.size as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, at.0).unwrap();
        bytes
    };
    let before = text(pid);
    for round in 0..20 {
        let mut attachment = arm(Target::open(pid).unwrap(), &path, &["work"]).unwrap();
        assert_ne!(text(pid), before, "round {round}");
        assert!(
            wait::until(Duration::from_secs(5), || count(&attachment) > 1000),
            "round {round}: nothing counted"
        );
        let report = attachment.detach().unwrap();
        assert_eq!((report.restored, report.foreign.len(), report.replaced), (1, 0, false), "round {round}");
        assert_eq!(text(pid), before, "round {round}");
        let total = count(&attachment);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(count(&attachment), total, "round {round}: counted after detach");
        if !report.left_mapped {
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
            assert!(!maps.contains("memfd:weir"), "round {round}: {maps}");
        }
    }
    server.write("\n").unwrap();
    server.finish(Duration::from_secs(10)).unwrap();
}

#[test]
fn says_what_is_wrong_with_a_target() {
    let check = |pid: i32| Target::open(pid).unwrap_err();
    assert!(matches!(check(0x3fff_fff0), Error::NoProcess { .. }));
    assert!(matches!(check(2), Error::NoProgram { .. } | Error::NoProcess { .. }));
}

#[test]
fn says_that_a_command_does_not_exist() {
    let start = |name: &str| {
        Launched::start(&[name.to_owned()], Some("/usr/bin".as_ref()), nix::sys::signal::SigSet::empty())
            .unwrap_err()
    };
    assert!(start("no-such-command").to_string().contains("no such command in PATH"));
    assert!(start("/etc/passwd").to_string().contains("Permission denied"));
}
