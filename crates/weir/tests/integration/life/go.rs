//! Programs of Go's compiler (tests/programs/goroutines.go): entries are probed while goroutines are preempted at any moment,
//! collected and moved; what cannot be is refused with the reason. The oracle is the program, which counts its calls and
//! holds each answer against what it must be.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use testkit::Daemon;
use testkit::paths::quoted;

use crate::life::worker::{BEGUN, DEADLINE, begin, number, stop, weir};

/// Attachments of the test that hammers, and how often it tries to have half of them.
const ROUNDS: u64 = 8;
const TRIES: u64 = 100;

/// The program, by the distribution's compiler or else the one that there is. `None`, told, where there is none.
fn program() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let is_compiler =
            |name: &&str| Command::new(name).arg("version").output().is_ok_and(|o| o.status.success());
        let compiler = ["/usr/bin/go", "go"].into_iter().find(is_compiler)?;
        Some(build(compiler, "goroutines", &[]))
    });
    if program.is_none() {
        testkit::skip::skip("go", "golang-go is not installed");
    }
    program.clone()
}

fn build(compiler: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = testkit::paths::target().join("testkit");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}-{}", std::process::id()));
    let mut command = Command::new(compiler);
    command.arg("build").args(flags).arg("-o").arg(&path);
    command.arg(testkit::paths::root().join("tests/programs/goroutines.go"));
    command.env("GO111MODULE", "off").env("GOFLAGS", "").env("GOCACHE", folder.join("go-cache"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    path
}

struct Busy {
    daemon: Daemon,
    path: PathBuf,
}

impl Busy {
    fn start(path: &Path) -> Busy {
        Busy::start_with(path, &[])
    }

    fn start_with(path: &Path, arguments: &[&str]) -> Busy {
        let mut command = Command::new(path);
        command.args(arguments);
        let mut daemon = Daemon::spawn(command).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Busy { daemon, path: path.to_owned() }
    }

    fn tell(&mut self, count: u64, total: u64) {
        self.daemon.write(&format!("{count}\n")).unwrap();
        assert_eq!(self.daemon.line(DEADLINE).unwrap(), format!("calls={total}"));
    }

    /// A goroutine that waits inside what a jump displaces is a refusal, however long it waits on a busy machine.
    fn traced(&self, script: &str) -> Daemon {
        let began = (0..TRIES).find_map(|_| {
            let refused = match begin(script, self.daemon.pid()) {
                Ok(weir) => return Some(weir),
                Err(refused) => refused,
            };
            assert!(refused.stderr.contains("parked:"), "{refused:?}");
            None
        });
        began.expect("no goroutine is parked there for ever")
    }

    fn script(&self, clauses: &str) -> String {
        format!("{BEGUN} {}", clauses.replace("GO:", &format!("{}:main.", quoted(&self.path))))
    }

    fn end(self) {
        let ended = self.daemon.finish(DEADLINE).unwrap();
        assert_eq!((ended.status.code(), ended.stdout.lines().last()), (Some(7), Some("done")), "{ended:?}");
    }
}

/// A goroutine that needs a larger stack begins the function once more with that; it is one call.
#[test]
fn every_call_of_a_go_program_is_counted_once_also_where_its_stack_grows() {
    let Some(path) = program() else { return };
    let script = format!("uprobe:{}:main.Told {{ @calls = count(); }}", quoted(&path));
    let command = format!("{} 100000", quoted(&path));
    let output = weir().args(["trace", "-v", "-e", &script, "-c", &command]).output().unwrap();
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.code() == Some(7) && text.contains("calls=100000\n"), "{text}{said}");
    assert!(said.contains("ended with exit code 7"), "{said}");
    assert_eq!(number(&text, "@calls"), Some(100_000), "{text}{said}");
}

/// Stacks grow and are moved, and are walked by return addresses: nothing is put there.
#[test]
fn every_return_of_a_go_program_is_counted_where_it_leaves() {
    let Some(path) = program() else { return };
    let mut busy = Busy::start(&path);
    busy.tell(1000, 1000);
    let script = busy.script("uprobe:GO:Told { @calls = count(); } uretprobe:GO:Told { @returns = count(); @odd = sum(retval % 3); }");
    let weir = busy.traced(&script);
    busy.tell(5000, 6000);
    let text = stop(weir);
    // Each is three times a number, and two more.
    let counted = (number(&text, "@calls"), number(&text, "@returns"), number(&text, "@odd"));
    assert_eq!(counted, (Some(5000), Some(5000), Some(10000)), "{text}");
    busy.tell(1000, 7000);
    busy.end();
}

/// Keys and strings: what programs do that need stack of their own.
#[test]
fn a_busy_go_program_is_traced_while_it_runs() {
    let Some(path) = program() else { return };
    let mut busy = Busy::start(&path);
    busy.tell(1000, 1000);
    let script = busy.script("uprobe:GO:Told { @calls = count(); @keyed[pid, str(arg0)] = count(); } uprobe:GO:Spin { @spun = count(); }");
    let weir = busy.traced(&script);
    busy.tell(5000, 6000);
    let text = stop(weir);
    assert_eq!(number(&text, "@calls"), Some(5000), "{text}");
    let keyed: u64 = text
        .lines()
        .filter(|line| line.starts_with("@keyed["))
        .filter_map(|line| line.rsplit(": ").next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(keyed, 5000, "{text}");
    assert!(number(&text, "@spun") > Some(0), "{text}");
    busy.tell(1000, 7000);
    busy.end();
}

/// Dozens of goroutines wait at any moment that were preempted in `Spin`, which is hardly more than what a jump displaces,
/// and are on no thread's stack: one whose place is written over would go on in the middle of a jump.
#[test]
fn no_goroutine_goes_on_inside_a_jump_that_was_written_while_it_waited() {
    let Some(path) = program() else { return };
    let mut busy = Busy::start(&path);
    let pid = busy.daemon.pid();
    let script = busy.script("uprobe:GO:Spin { @ = count(); } interval:ms:20 { exit(); }");
    let (mut attached, mut round) = (0, 0);
    // On a machine with other things to do a goroutine may wait there for long, and the next try is more likely to attach.
    while round < ROUNDS || attached * 2 <= ROUNDS && round < TRIES {
        let output = weir().args(["trace", "-e", &script, "-p", &pid.to_string()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(busy.daemon.is_running(), "round {round}: it is gone: {said}");
        match output.status.success() {
            true => attached += 1,
            false => {
                assert!(said.contains("parked: ") || said.contains("did not stop"), "round {round}: {said}")
            }
        }
        round += 1;
        busy.tell(100, 100 * round);
    }
    assert!(attached * 2 > ROUNDS, "attached {attached} times of {round}");
    busy.end();
}

/// One that waits there for ever, or so it looks.
#[test]
fn a_function_that_a_goroutine_waits_inside_of_is_not_written_to() {
    let Some(path) = program() else { return };
    let binary = weir_symbols::Binary::open(&path).unwrap();
    let function = binary.find("main.Spin").unwrap()[0];
    let window = weir_probe::plan_functions(&[(&binary, function)]).remove(0).unwrap();
    let inside = window.interior().next().expect("its first instructions are short");
    // Among dozens that are preempted in `Spin`, one may always wait there where the machine is busy.
    let mut busy = Busy::start_with(&path, &["calm"]);
    busy.daemon.write(&format!("hold {inside:#x}\n")).unwrap();
    busy.daemon.line_with("holding", DEADLINE).unwrap();
    let script = busy.script("uprobe:GO:Spin { @ = count(); } interval:ms:20 { exit(); }");
    let pid = busy.daemon.pid().to_string();
    let attach = || weir().args(["trace", "-e", &script, "-p", &pid]).output().unwrap();
    // It has said that it is there, and may yet run to where it waits: a thread is the reason then.
    let is_parked = || {
        let said = attach();
        assert!(!said.status.success(), "{said:?}");
        let why = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(why.contains("parked: ") || why.contains("busy: "), "{why}");
        why.contains("parked: ")
    };
    assert!(testkit::wait::until(DEADLINE, is_parked));
    busy.daemon.write("free\n").unwrap();
    busy.daemon.line_with("freed", DEADLINE).unwrap();
    let attached = attach();
    assert!(attached.status.success(), "{attached:?}");
    busy.end();
}

/// Runs weir on the program and gives what it said when it refused.
fn refused(path: &Path, clause: &str) -> String {
    let script = clause.replace("GO:", &format!("{}:", quoted(path)));
    let command = format!("{} 10", quoted(path));
    let output = weir().args(["trace", "--engine", "user", "-e", &script, "-c", &command]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1 | 3)), "{clause}: {said}");
    said
}

#[test]
fn what_cannot_be_probed_in_a_go_program_is_refused_with_the_reason() {
    let Some(path) = program() else { return };
    let check = |clause: &str, reason: &str| {
        let said = refused(&path, clause);
        assert!(said.contains(reason), "{clause}: {said}");
    };
    check("uprobe:GO:main.leaf { @ = count(); }", "stack-unchecked: ");
    check("uprobe:GO:runtime.goexit.abi0 { @ = count(); }", "branch-into-window: ");
}

/// Nothing in it says where a function begins or ends.
#[test]
fn a_stripped_go_program_is_refused_by_address_too() {
    let Some(path) = program() else { return };
    let whole = weir_symbols::Binary::open(&path).unwrap();
    let address = whole.find("main.Spin").unwrap()[0].address.0;
    let stripped = path.with_extension("stripped");
    let output = Command::new("strip").arg("-o").arg(&stripped).arg(&path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = refused(&stripped, &format!("uprobe:GO:{address:#x} {{ @ = count(); }}"));
    assert!(said.contains("no function of"), "{said}");
}
