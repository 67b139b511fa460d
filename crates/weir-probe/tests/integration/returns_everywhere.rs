//! Every function that can be called through, of real programs at once: the same output, and a return for every call
//! that has one.

use crate::loads;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::SigSet;
use testkit::{Daemon, paths, wait};
use weir_probe::launch::Ended;
use weir_probe::{Launched, Target, restore};
use weir_symbols::{Binary, Function, FunctionKind, maps};

use crate::loads::LIBC;
use crate::sessions::{ENTRIES, MATCHED, RETURNS, SUM, arm, session, session_of, value};

const DEADLINE: Duration = Duration::from_secs(120);

/// Calls that never return: `exit`, and what called it; threads and children that end inside.
const UNRETURNED_MAX: u64 = 200;

fn plain(binaries: &[Binary]) -> Vec<(&Binary, &Function)> {
    let is_plain = |function: &&Function| function.size > 0 && function.kind == FunctionKind::Plain;
    binaries.iter().flat_map(|b| b.functions().iter().filter(is_plain).map(move |f| (b, f))).collect()
}

/// Runs `command`, which writes to the file that it is given as `$OUT`: what it wrote, how it ended, and the counts.
fn run(command: &str, binaries: &[Binary], out: &Path) -> (Vec<u8>, Ended, Option<[u64; 3]>) {
    let words = command.split('\x1f').map(|word| word.replace("$OUT", &out.display().to_string()));
    let words: Vec<String> = words.collect();
    let (mut launched, exec) =
        Launched::start(&words, Some("/usr/bin:/bin".as_ref()), SigSet::empty()).unwrap();
    let identities: Vec<_> = binaries.iter().map(|binary| binary.identity().unwrap()).collect();
    let target = exec.into_target(Some(&identities)).unwrap();
    let functions = plain(binaries);
    let attachment = (!functions.is_empty()).then(|| {
        let attachment = arm(target, &functions, &[session_of(0)], &[session(0)]);
        eprintln!("{}: {} of {} probed", words[0], attachment.probes(), functions.len());
        assert!(attachment.probes() * 100 >= functions.len() * 60, "{}", attachment.probes());
        attachment
    });
    let mut ended = None;
    let ends = wait::until(DEADLINE, || {
        ended = launched.try_wait();
        ended.is_some()
    });
    assert!(ends, "{command} does not end");
    let counts = attachment.map(|attachment| {
        let missed = attachment.maps().counters().tail_depth;
        let [entries, returns, matched] = [ENTRIES, RETURNS, MATCHED].map(|index| value(&attachment, index));
        eprintln!(
            "entries {entries}, returns {returns}, of them matched {matched}, missed {missed}, {}",
            value(&attachment, SUM)
        );
        [entries, returns + missed, matched]
    });
    (std::fs::read(out).unwrap(), ended.unwrap(), counts)
}

fn check(name: &str, command: &str, files: &[&str]) {
    if let Some(missing) = files.iter().find(|file| !Path::new(file).exists()) {
        testkit::skip::skip("plan", format!("{missing} is not installed"));
        return;
    }
    let folder = paths::target().join("testkit");
    std::fs::create_dir_all(&folder).unwrap();
    let out =
        |kind: &str| -> PathBuf { folder.join(format!("returns-{name}-{kind}-{}", std::process::id())) };
    let (unprobed, probed) = (out("unprobed"), out("probed"));
    let expected = run(command, &[], &unprobed);
    let binaries: Vec<Binary> = files.iter().map(|file| Binary::open(Path::new(file)).unwrap()).collect();
    let found = run(command, &binaries, &probed);
    assert_eq!((expected.0.len(), expected.1), (found.0.len(), found.1), "{name}");
    assert!(!expected.0.is_empty() && expected.0 == found.0, "{name}: the output differs");
    let [entries, returns, matched] = found.2.unwrap();
    assert!(entries > 10_000 && returns <= entries, "{name}: {entries} entries, {returns} returns");
    assert!(entries - returns < UNRETURNED_MAX, "{name}: {entries} entries, {returns} returns");
    // In chains of tail calls the stack pointer at the return is that of the first.
    assert!(matched * 10 > returns * 5, "{name}: {matched} of {returns} returns matched");
    let _ = (std::fs::remove_file(unprobed), std::fs::remove_file(probed));
}

#[test]
fn a_database_gives_the_same_output() {
    check("sqlite3", loads::DATABASE, &[loads::SQLITE, LIBC]);
}

#[test]
fn an_interpreter_gives_the_same_output() {
    let script = "python3\x1f-S\x1f-E\x1f-c\x1fimport sys, json, re\nout = open('$OUT', 'w')\ndef f(n): return n if n < 2 else f(n-1) + f(n-2)\n\
                  d = {str(i): [i, i * 1.5, {'x': i}] for i in range(300)}\nprint(json.dumps(d)[:500], f(15), file=out)\n\
                  for i in range(300):\n  try: raise ValueError(i)\n  except ValueError as e: print(e, re.sub('[0-4]', 'z', repr(e)), file=out)\n\
                  print(sorted(d, key=lambda k: d[k][0] % 7)[:50], sum(map(int, d)), '%08.3f' % 3.14159, file=out)\n";
    check("python3", script, &["/usr/bin/python3", LIBC]);
}

/// Addresses of the functions whose text in process `pid` is not that of the file.
fn changed(pid: i32, binary: &Binary) -> Vec<u64> {
    let mappings = maps::read(pid as u32).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let is_changed = |function: &&Function| {
        let identity = binary.identity().unwrap();
        let at = maps::to_virtual(&mappings, identity, binary, function.address).unwrap();
        let mut now = vec![0; function.size as usize];
        memory.read_exact_at(&mut now, at.0).unwrap();
        binary.bytes(function.address, now.len()).is_some_and(|file| file != now)
    };
    let functions = binary.functions().iter().filter(|function| function.size > 0);
    functions.filter(is_changed).map(|function| function.address.0).collect()
}

#[test]
fn every_function_of_a_running_shell_comes_and_goes() {
    let binaries = ["/bin/bash", LIBC].map(|file| Binary::open(Path::new(file)).unwrap());
    let functions = plain(&binaries);
    for round in 0..4 {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", loads::SHELL]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = Daemon::spawn(command).unwrap();
        shell.line_with("ready", DEADLINE).unwrap();
        for turn in 0..3 {
            let target = Target::open(shell.pid() as i32).unwrap();
            let mut attachment = arm(target, &functions, &[session_of(0)], &[session(0)]);
            let probes = attachment.probes();
            assert!(probes * 100 >= functions.len() * 75, "{probes} of {}", functions.len());
            let runs = wait::until(DEADLINE, || value(&attachment, RETURNS) > 5_000);
            assert!(runs, "round {round}.{turn}: {} returns", value(&attachment, RETURNS));
            let report = attachment.detach().unwrap();
            drop(attachment);
            assert_eq!(report.foreign, [], "round {round}.{turn}");
            // While it waits for a child, inside of probed functions, weir's code and what answers unwinders for it stay;
            // that is a probed function too.
            let hooks = usize::from(report.left_mapped);
            let restored = report.restored + hooks;
            assert!(restored >= probes, "round {round}.{turn}: {restored} of {probes}");
            let pid = shell.pid() as i32;
            let is_out = || !restore::detach(pid).unwrap().left_mapped;
            assert!(!report.left_mapped || wait::until(DEADLINE, is_out), "round {round}.{turn}: code stays");
            for binary in &binaries {
                assert_eq!(changed(pid, binary), [], "round {round}.{turn}: {}", binary.path().display());
            }
        }
        shell.write("\n").unwrap();
        shell.line_with("same", DEADLINE).unwrap();
        shell.finish(DEADLINE).unwrap();
    }
}
