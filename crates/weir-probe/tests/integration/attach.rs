//! Attaching to real processes, and what cannot be attached to.

use crate::loads;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::target::{self, Source};
use testkit::{paths, wait};
use weir_probe::launch::Ended;
use weir_probe::{Error, Launched, Refusal, Target};
use weir_symbols::{Binary, Function, FunctionKind};

use crate::counting::{arm, arm_functions, count};
use crate::loads::LIBC;

fn wait_for_end(launched: &mut Launched) {
    assert!(
        wait::until(Duration::from_secs(120), || launched.try_wait().is_some()),
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
        let target = exec.into_target(Some(&[binary.identity().unwrap()])).unwrap();
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
        alarm(600);
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
    server.line_with("ready", Duration::from_secs(120)).unwrap();
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
            wait::until(Duration::from_secs(120), || count(&attachment) > 1000),
            "round {round}: nothing counted"
        );
        let report = attachment.detach().unwrap();
        assert_eq!((report.restored, report.foreign.len(), report.replaced), (1, 0, false), "round {round}");
        assert_eq!(text(pid), before, "round {round}");
        let total = count(&attachment);
        // Its threads are in the function all the time.
        let runs = wait::until_used(pid as u32, Duration::from_millis(2), Duration::from_secs(120));
        assert!(runs, "round {round}: it does not go on");
        assert_eq!(count(&attachment), total, "round {round}: counted after detach");
        if !report.left_mapped {
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
            assert!(!maps.contains("memfd:weir"), "round {round}: {maps}");
        }
    }
    server.write("\n").unwrap();
    server.finish(Duration::from_secs(120)).unwrap();
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

/// Runs `command`, which writes to the file that it is given as `$OUT`, and gives what it wrote and how it ended;
/// with all functions of `binaries` probed, if there are any.
fn run_probed(command: &str, binaries: &[Binary], out: &Path) -> (Vec<u8>, Ended, u64) {
    let program: Vec<String> =
        command.split('\x1f').map(|word| word.replace("$OUT", &out.display().to_string())).collect();
    let (mut launched, exec) =
        Launched::start(&program, Some("/usr/bin:/bin".as_ref()), nix::sys::signal::SigSet::empty()).unwrap();
    let identities: Vec<_> = binaries.iter().map(|binary| binary.identity().unwrap()).collect();
    let target = exec.into_target(Some(&identities)).unwrap();
    let sized = |function: &&Function| function.size > 0 && function.kind == FunctionKind::Plain;
    let functions: Vec<(&Binary, &Function)> =
        binaries.iter().flat_map(|b| b.functions().iter().filter(sized).map(move |f| (b, f))).collect();
    let attachment = arm_functions(target, &functions).unwrap();
    let refused: Vec<&Refusal> =
        attachment.outcomes().iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(attachment.probes() * 100 >= functions.len() * 95, "{command}: {refused:?}");
    let mut ended = None;
    assert!(
        wait::until(Duration::from_secs(120), || {
            ended = launched.try_wait();
            ended.is_some()
        }),
        "{command} does not end"
    );
    eprintln!(
        "{command}: {} of {} probed, {} hits",
        attachment.probes(),
        functions.len(),
        count(&attachment)
    );
    (std::fs::read(out).unwrap(), ended.unwrap(), count(&attachment))
}

/// Runs `command` unprobed and probed, if all `files` are installed.
fn check_everything(name: &str, command: &str, files: &[&str]) {
    if let Some(missing) = files.iter().find(|file| !Path::new(file).exists()) {
        testkit::skip::skip("plan", format!("{missing} is not installed"));
        return;
    }
    let out = |kind: &str| -> PathBuf {
        let folder = paths::target().join("testkit");
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(format!("everything-{name}-{kind}-{}", std::process::id()))
    };
    let (unprobed, probed) = (out("unprobed"), out("probed"));
    let expected = run_probed(command, &[], &unprobed);
    let binaries: Vec<Binary> = files.iter().map(|file| Binary::open(Path::new(file)).unwrap()).collect();
    let found = run_probed(command, &binaries, &probed);
    assert_eq!((expected.0.len(), expected.1), (found.0.len(), found.1), "{name}");
    assert!(!expected.0.is_empty(), "{name} wrote nothing");
    assert!(expected.0 == found.0, "{name}: the output differs");
    assert!(found.2 > 10_000, "{name}: {} hits", found.2);
    let _ = (std::fs::remove_file(unprobed), std::fs::remove_file(probed));
}

#[test]
fn a_shell_script_gives_the_same_output() {
    let script = "bash\x1f-c\x1fexec > \"$OUT\"; for i in $(seq 300); do x=$((i*i)); a[i]=$x; case $x in *1*) s=${s/1/2}$x;; \
                  *) s=${x%%4*}$s;; esac; done; echo ${#a[@]} $s ${s:3:7}; trap 'echo left' EXIT; f() { local y=$1; \
                  ((y)) && f $((y-1)); echo $y; }; f 40; printf '%s|%5d|%x\\n' a 3 255; [[ abc =~ a(.)c ]] && echo \
                  ${BASH_REMATCH[1]}; (exit 3); echo $?; echo x | (read y; echo $y$y); nothing 2> /dev/null; echo $?";
    check_everything(
        "bash",
        &script.replace("echo x | (", "echo x > \"$OUT.in\"; (").replace("$y$y)", "$y$y < \"$OUT.in\")"),
        &["/bin/bash", LIBC],
    );
}

#[test]
fn a_database_gives_the_same_output() {
    check_everything("sqlite3", loads::DATABASE, &[loads::SQLITE, LIBC]);
}

#[test]
fn every_function_of_a_running_shell_comes_and_goes() {
    let binaries = ["/bin/bash", LIBC].map(|file| Binary::open(Path::new(file)).unwrap());
    let functions: Vec<(&Binary, &Function)> =
        binaries.iter().flat_map(|b| b.functions().iter().map(move |f| (b, f))).collect();
    for round in 0..4 {
        // Each time another, since code may stay behind in one that waits in a call.
        let mut command = Command::new("/bin/bash");
        command.args(["-c", loads::SHELL]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = testkit::Daemon::spawn(command).unwrap();
        shell.line_with("ready", Duration::from_secs(120)).unwrap();
        let target = Target::open(shell.pid() as i32).unwrap();
        let mut attachment = arm_functions(target, &functions).unwrap();
        let probes = attachment.probes();
        assert!(probes * 100 >= functions.len() * 95, "round {round}: {probes} of {}", functions.len());
        let runs = wait::until(Duration::from_secs(120), || count(&attachment) > 20_000);
        assert!(runs, "round {round}: {} hits", count(&attachment));
        let report = attachment.detach().unwrap();
        assert_eq!((report.restored, &report.foreign[..]), (probes, &[][..]), "round {round}");
        shell.write("\n").unwrap();
        shell.line_with("same", Duration::from_secs(120)).unwrap();
        shell.finish(Duration::from_secs(120)).unwrap();
    }
}
