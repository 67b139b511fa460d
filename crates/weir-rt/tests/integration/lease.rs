//! However a controller ends, the low half of its segment's lease is 0 from then on; as long as it lives, it is not.
//!
//! Each case starts this program again as the controller, which prints its process id and the number of its segment's
//! descriptor, and ends in the way that it is told.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{skip, wait};
use weir_rt::abi::header;
use weir_rt::segment::{Identity, Segment, SegmentLayout};

const HOW: &str = "WEIR_TEST_LEASE";
const DEADLINE: Duration = Duration::from_secs(60);

/// The controller: nothing where this is no case's child.
#[test]
fn controller() {
    let Ok(how) = std::env::var(HOW) else { return };
    let layout = SegmentLayout::plan(&[], 1).unwrap();
    let segment = Segment::create_local(layout, &Identity::default()).unwrap();
    let takes = thread::scope(|scope| scope.spawn(|| segment.hold_lease()).join());
    takes.unwrap().unwrap();
    println!("\nheld {}", segment.fd().as_raw_fd());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    match how.as_str() {
        "exit" => std::process::exit(0),
        "exec" => {
            use std::os::unix::process::CommandExt;
            // It ends when it is killed, so that the verdict does not depend on how long that is.
            panic!("{}", Command::new("sleep").arg("1000000").exec());
        }
        // SAFETY: a write to address 0 ends the process, which is what is wanted.
        "crash" => unsafe { std::ptr::null_mut::<u8>().write_volatile(1) },
        "drop" => drop(segment),
        // SAFETY: this thread ends, and nothing is unwound.
        "thread" => unsafe {
            libc::syscall(libc::SYS_exit, 0);
        },
        _ => {}
    }
    loop {
        thread::park();
    }
}

struct Controller {
    child: Child,
    segment: File,
}

impl Controller {
    /// `before`: a program that starts it, and its arguments. `None` where that cannot be done here.
    fn start(how: &str, before: &[&str]) -> Option<Controller> {
        let own = std::env::current_exe().unwrap();
        let words: Vec<&str> = before.iter().copied().chain([own.to_str().unwrap()]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["--exact", "lease::controller", "--nocapture"]).env(HOW, how);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let number = lines.find_map(|line| line.ok()?.strip_prefix("held ").map(str::to_owned))?;
        // What keeps the namespace has one child, the controller.
        let mut pid = child.id();
        while let Some(inner) = child_of(pid) {
            pid = inner;
        }
        let path = format!("/proc/{pid}/fd/{number}");
        let segment = File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Some(Controller { child, segment })
    }

    fn lease(&self) -> u16 {
        let mut word = [0; 2];
        self.segment.read_exact_at(&mut word, header::LEASE as u64).unwrap();
        u16::from_le_bytes(word)
    }

    /// How many threads it has that have not ended.
    fn threads(&self) -> usize {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let stats =
            threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
        // Its state stands behind its name, which is in brackets (proc_pid_stat(5)).
        let lives =
            |stat: &String| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']));
        stats.filter(lives).count()
    }

    fn tell(&mut self) {
        // It may have ended before it has closed this.
        drop(self.child.stdin.take());
    }

    fn ends(&self, how: &str) {
        assert!(wait::until(DEADLINE, || self.lease() == 0), "{how}: the lease is {:#x}", self.lease());
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

#[test]
fn it_ends_with_the_process_in_every_way() {
    for how in ["exit", "exec", "crash", "drop"] {
        let mut controller = Controller::start(how, &[]).unwrap();
        assert_ne!(controller.lease(), 0, "{how}");
        controller.tell();
        controller.ends(how);
    }
}

#[test]
fn it_ends_when_the_process_is_killed() {
    let controller = Controller::start("wait", &[]).unwrap();
    assert_ne!(controller.lease(), 0);
    kill(Pid::from_raw(controller.child.id() as i32), Signal::SIGKILL).unwrap();
    controller.ends("killed");
}

#[test]
fn it_stays_while_any_thread_of_the_process_lives() {
    let mut controller = Controller::start("thread", &[]).unwrap();
    let before = controller.threads();
    controller.tell();
    assert!(wait::until(DEADLINE, || controller.threads() < before), "no thread ends");
    assert_ne!(controller.lease(), 0, "a thread has ended, and the process has not");
    controller.child.kill().unwrap();
    controller.ends("killed");
}

#[test]
fn it_ends_in_another_pid_namespace() {
    let before = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child=KILL"];
    let Some(mut controller) = Controller::start("wait", &before) else {
        skip::skip("rt::lease", "unshare(1) makes no pid namespace here");
        return;
    };
    assert_ne!(controller.lease(), 0);
    controller.child.kill().unwrap();
    controller.ends("its namespace is gone");
}
