//! Selections against a `/proc` made of files, where processes come, change and go as a test wants, and against this
//! machine's own.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use super::*;
use crate::processes::ProcessId;
use crate::watch::{LOOK_INTERVAL, Watcher};

/// The number of the process that watches.
const OWN: i32 = 2;

/// A machine whose files a test writes.
struct Fake {
    folder: PathBuf,
    now: Instant,
    given_out: u64,
}

impl Fake {
    fn new(name: &str) -> Fake {
        let folder = std::env::temp_dir().join(format!("weir-select-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let fake = Fake { folder, now: Instant::now(), given_out: 0 };
        fs::create_dir_all(fake.folder.join("proc/self")).unwrap();
        fs::create_dir_all(fake.folder.join("cgroup")).unwrap();
        let point = fake.folder.join("cgroup");
        let mountinfo = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", point.display());
        fs::write(fake.folder.join("proc/self/mountinfo"), mountinfo).unwrap();
        fs::write(fake.folder.join("proc/uptime"), "not a process").unwrap();
        fake
    }

    fn machine(&self) -> Machine {
        Machine { proc: self.folder.join("proc"), root: self.folder.clone(), home: None }
    }

    /// A process that runs `comm`; it is new if there was none.
    fn process(&mut self, pid: i32, parent: i32, comm: &str) {
        self.stat(pid, parent, comm, "S", 0, 100 + u64::from(pid.unsigned_abs()));
        self.enter(pid, "/");
        self.given_out += 1;
        self.tell_last();
    }

    fn stat(&self, pid: i32, parent: i32, comm: &str, state: &str, flags: u64, start: u64) {
        let folder = self.folder.join(format!("proc/{pid}"));
        fs::create_dir_all(&folder).unwrap();
        let rest = format!("{state} {parent} 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0");
        fs::write(folder.join("stat"), format!("{pid} ({comm}) {rest}\n")).unwrap();
    }

    fn belongs_to(&self, pid: i32, user: u32) {
        let status = format!("Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\n");
        fs::write(self.folder.join(format!("proc/{pid}/status")), status).unwrap();
    }

    fn tell_last(&self) {
        fs::write(self.folder.join("proc/loadavg"), format!("0 0 0 1/2 {}\n", self.given_out)).unwrap();
    }

    fn executes(&self, pid: i32, path: &str) {
        symlink(path, self.folder.join(format!("proc/{pid}/exe"))).unwrap();
    }

    /// Is in this cgroup, which is made.
    fn enter(&self, pid: i32, group: &str) {
        fs::create_dir_all(self.folder.join("cgroup").join(group.trim_start_matches('/'))).unwrap();
        fs::write(self.folder.join(format!("proc/{pid}/cgroup")), format!("0::{group}\n")).unwrap();
    }

    fn ends(&self, pid: i32) {
        fs::remove_dir_all(self.folder.join(format!("proc/{pid}"))).unwrap();
    }

    fn watcher(&self, given: Given) -> Watcher {
        let selection = Selection::find(&given, &self.machine()).unwrap();
        Watcher::new(Processes::at(&self.machine().proc), selection, OWN)
    }

    /// Who has come by the time of the next look, and how.
    fn look(&mut self, watcher: &mut Watcher) -> Vec<(i32, String)> {
        self.look_after(LOOK_INTERVAL, watcher)
    }

    fn look_after(&mut self, passed: Duration, watcher: &mut Watcher) -> Vec<(i32, String)> {
        self.now += passed;
        let came = watcher.look(self.now, &|_| false).unwrap();
        came.into_iter().map(|came| (came.process.id.pid, came.origin.to_string())).collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const NOTHING: Given<'_> =
    Given { processes: &[], cgroups: &[], units: &[], containers: &[], follow: Follow::No, any_user: false };

fn named(pattern: &str) -> [ProcessSpec; 1] {
    [pattern.parse().unwrap()]
}

fn came(pid: i32, origin: &str) -> Vec<(i32, String)> {
    vec![(pid, origin.to_owned())]
}

#[test]
fn a_process_is_a_number_or_a_name() {
    let spec = |text: &str| text.parse::<ProcessSpec>();
    assert_eq!(spec("17"), Ok(ProcessSpec::Pid(17)));
    assert_eq!(spec("nginx*"), Ok(ProcessSpec::Name("nginx*".into())));
    assert_eq!(spec("7zip"), Ok(ProcessSpec::Name("7zip".into())));
    assert_eq!(spec("0").unwrap_err(), "numbers of processes are from 1 to 2147483647");
    assert!(spec("2147483648").is_err() && spec("").is_err() && spec("/bin/sh").is_err());
}

#[test]
fn names_are_of_the_command_or_of_its_file() {
    let mut fake = Fake::new("names");
    fake.process(5, 1, "nginx");
    fake.process(6, 1, "worker");
    fake.executes(6, "/usr/sbin/nginx-debug (deleted)");
    fake.process(7, 1, "not-nginx");
    let processes = named("nginx*");
    let mut watcher = fake.watcher(Given { processes: &processes, ..NOTHING });
    assert_eq!(fake.look(&mut watcher), [(5, "name nginx*".into()), (6, "name nginx*".into())]);
    assert_eq!(fake.look(&mut watcher), []);
}

#[test]
fn later_processes_are_selected_too_each_once() {
    let mut fake = Fake::new("later");
    let processes = named("db");
    let mut watcher = fake.watcher(Given { processes: &processes, ..NOTHING });
    assert_eq!(fake.look(&mut watcher), []);
    fake.process(9, 1, "db");
    assert_eq!(fake.look_after(Duration::ZERO, &mut watcher), [], "it has just looked");
    assert_eq!(fake.look(&mut watcher), came(9, "name db"));
    assert_eq!(fake.look_after(Duration::from_secs(5), &mut watcher), []);
}

#[test]
fn processes_of_other_namespaces_are_found_within_a_second() {
    let mut fake = Fake::new("quiet");
    let processes = named("db");
    let mut watcher = fake.watcher(Given { processes: &processes, ..NOTHING });
    fake.process(8, 1, "x");
    assert_eq!(fake.look(&mut watcher), []);
    fake.process(9, 1, "db");
    fake.given_out -= 1;
    fake.tell_last();
    assert_eq!(fake.look(&mut watcher), []);
    assert_eq!(fake.look_after(Duration::from_secs(1), &mut watcher), came(9, "name db"));
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    let mut fake = Fake::new("reuse");
    let processes = named("db");
    let mut watcher = fake.watcher(Given { processes: &processes, ..NOTHING });
    fake.process(9, 1, "db");
    assert_eq!(fake.look(&mut watcher), came(9, "name db"));
    fake.ends(9);
    fake.given_out += 1;
    fake.tell_last();
    assert_eq!(fake.look(&mut watcher), []);
    fake.process(9, 1, "db");
    assert_eq!(fake.look(&mut watcher), came(9, "name db"));
    // One that was not selected, and whose number came back between two looks.
    fake.process(10, 1, "sh");
    assert_eq!(fake.look(&mut watcher), []);
    fake.stat(10, 1, "db", "S", 0, 7777);
    assert_eq!(fake.look(&mut watcher), came(10, "name db"));
}

#[test]
fn who_executes_a_selected_program_later_is_selected_then() {
    let mut fake = Fake::new("exec");
    let processes = named("db");
    let mut watcher = fake.watcher(Given { processes: &processes, ..NOTHING });
    fake.process(9, 1, "sh");
    assert_eq!(fake.look(&mut watcher), []);
    fake.process(9, 1, "db");
    assert_eq!(fake.look(&mut watcher), came(9, "name db"));
    // One that has been something else for long is asked about within two seconds.
    fake.process(10, 1, "sh");
    for _ in 0..1000 {
        assert_eq!(fake.look(&mut watcher), []);
    }
    fake.process(10, 1, "db");
    assert_eq!(fake.look_after(Duration::from_secs(2), &mut watcher), came(10, "name db"));
}

#[test]
fn kernel_threads_zombies_and_the_watcher_are_left_out() {
    let mut fake = Fake::new("left-out");
    fake.process(OWN, 1, "db");
    fake.stat(5, 1, "db", "S", 0x0020_8040, 9);
    fake.stat(6, 1, "db", "Z", 0, 9);
    let processes = named("*");
    let mut watcher = fake.watcher(Given { processes: &processes, ..NOTHING });
    assert_eq!(fake.look(&mut watcher), []);
}

#[test]
fn children_are_followed_whatever_the_order_of_their_numbers() {
    let mut fake = Fake::new("children");
    fake.process(50, 1, "server");
    let pids = [ProcessSpec::Pid(50)];
    let mut watcher = fake.watcher(Given { processes: &pids, follow: Follow::Held, ..NOTHING });
    watcher.adopt(ProcessId { pid: 50, start: 150 });
    fake.process(60, 50, "child");
    fake.process(55, 60, "grandchild");
    fake.process(61, 1, "other");
    fake.process(62, 61, "child of another");
    assert_eq!(fake.look(&mut watcher), [(60, "child of 50".into()), (55, "child of 60".into())]);
    // A process is another's child though its parent has just ended.
    fake.process(63, 1, "orphan");
    fake.now += LOOK_INTERVAL;
    let found = watcher.look(fake.now, &|pid| pid == 63).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].process.id.pid, &found[0].origin), (63, &Origin::Orphan));
}

#[test]
fn children_are_left_alone_where_nobody_asked_for_them() {
    let mut fake = Fake::new("no-follow");
    let processes = named("server");
    let mut watcher = fake.watcher(Given { processes: &processes, ..NOTHING });
    fake.process(50, 1, "server");
    fake.process(51, 50, "helper");
    assert_eq!(fake.look(&mut watcher), came(50, "name server"));
    assert_eq!(fake.look(&mut watcher), []);
}

#[test]
fn cgroups_units_and_containers_hold_their_processes() {
    let id = "0123456789abcdef".repeat(4);
    let mut fake = Fake::new("groups");
    fake.process(5, 1, "a");
    fake.enter(5, "/system.slice/db.service/inner");
    fake.process(6, 1, "b");
    fake.enter(6, &format!("/system.slice/docker-{id}.scope"));
    fake.process(7, 1, "c");
    let check = |fake: &mut Fake, given: Given, pid: i32, origin: &str| {
        let mut watcher = fake.watcher(given);
        assert_eq!(fake.look(&mut watcher), came(pid, origin));
    };
    let list = |text: &str| vec![text.to_owned()];
    let cgroups = list("system.slice/db.service");
    check(&mut fake, Given { cgroups: &cgroups, ..NOTHING }, 5, "cgroup system.slice/db.service");
    let units = list("db");
    check(&mut fake, Given { units: &units, ..NOTHING }, 5, "unit db.service");
    let containers = list("012345678");
    check(&mut fake, Given { containers: &containers, ..NOTHING }, 6, "container 012345678");
    // A process is moved into its group after it has begun.
    let mut watcher = fake.watcher(Given { units: &units, ..NOTHING });
    assert_eq!(fake.look(&mut watcher).len(), 1);
    fake.enter(7, "/system.slice/db.service");
    assert_eq!(fake.look(&mut watcher), came(7, "unit db.service"));
}

#[test]
fn what_is_not_there_is_refused_all_at_once() {
    let fake = Fake::new("not-there");
    fs::create_dir_all(fake.folder.join("usr/lib/systemd/system")).unwrap();
    for unit in ["sleeps.service", "each@.service"] {
        fs::write(fake.folder.join("usr/lib/systemd/system").join(unit), "").unwrap();
    }
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (cgroups, units, containers) = (words(&["nosuch"]), words(&["nounit"]), words(&["nocontainer"]));
    let given = Given { cgroups: &cgroups, units: &units, containers: &containers, ..NOTHING };
    let errors = Selection::find(&given, &fake.machine()).unwrap_err();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].starts_with("there is no cgroup nosuch"), "{errors:?}");
    assert!(errors[1].starts_with("there is no unit nounit.service: it does not run"), "{errors:?}");
    assert!(errors[2].starts_with("there is no container nocontainer"), "{errors:?}");
    // These may begin to run.
    let units = words(&["sleeps", "each@1", "any*"]);
    let selection = Selection::find(&Given { units: &units, ..NOTHING }, &fake.machine()).unwrap();
    assert!(selection.is_standing() && selection.rules.len() == 3);
}

#[test]
fn numbers_are_taken_once_and_do_not_stand() {
    let fake = Fake::new("numbers");
    let pids = [ProcessSpec::Pid(17), ProcessSpec::Pid(18), ProcessSpec::Pid(17)];
    let selection = Selection::find(&Given { processes: &pids, ..NOTHING }, &fake.machine()).unwrap();
    assert_eq!(selection.pids, [17, 18]);
    assert!(!selection.is_standing());
}

#[test]
fn real_children_are_found_with_their_ancestry() {
    let own = std::process::id() as i32;
    let processes = Processes::at(Path::new("/proc"));
    let selection = Selection { follow: Follow::Held, ..Selection::default() };
    let mut watcher = Watcher::new(processes.clone(), selection, 0);
    watcher.adopt(processes.process(own).unwrap().id);
    let mut shell = std::process::Command::new("sh");
    // Until it is killed below: the verdict depends on that it is there.
    shell.args(["-c", "sleep 600 & echo $!; read x; kill $!"]).stdin(std::process::Stdio::piped());
    let mut daemon = testkit::Daemon::spawn(shell).unwrap();
    let deadline = Duration::from_secs(120);
    let sleep: i32 = daemon.line_with("", deadline).unwrap().trim().parse().unwrap();
    let came = watcher.look(Instant::now(), &|_| false).unwrap();
    let origin =
        |pid: i32| came.iter().find(|came| came.process.id.pid == pid).map(|came| came.origin.clone());
    assert_eq!(origin(daemon.pid() as i32), Some(Origin::ChildOf(own)));
    assert_eq!(origin(sleep), Some(Origin::ChildOf(daemon.pid() as i32)));
    daemon.finish(deadline).unwrap();
}

/// Calls of read(2) by this thread so far, as proc_pid_io(5) has them; none where the kernel does not count them.
fn reads() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: ")?.parse().ok())
}

/// What is promised is a hundredth of a CPU, which load moves and a count does not: what costs is to read files of `/proc`.
#[test]
fn watching_five_hundred_processes_asks_about_each_seldom() {
    if reads().is_none() {
        return testkit::skip::skip("processes-io", "/proc/thread-self/io counts no calls of read");
    }
    let mut shell = std::process::Command::new("sh");
    // Until they are killed below: the verdict depends on that they are there.
    shell.args(["-c", "i=0; while [ $i -lt 500 ]; do sleep 600 & all=\"$all $!\"; i=$((i + 1)); done; echo up; read x; kill $all"]);
    let mut sleepers = testkit::Daemon::spawn(shell).unwrap();
    sleepers.line_with("up", Duration::from_secs(120)).unwrap();
    let rules = vec![Rule::Name("no-such-name".into()), Rule::Unit("no-such.service".into())];
    let selection = Selection { rules, follow: Follow::Held, ..Selection::default() };
    let processes = Processes::at(Path::new("/proc"));
    let count = processes.pids().unwrap().len() as u64;
    let mut watcher = Watcher::new(processes, selection, 0);
    let mut now = Instant::now();
    const LOOKS: u32 = 100;
    // As long as it takes until all have been asked about again, once.
    let mut round = || {
        let before = reads().unwrap();
        for _ in 0..LOOKS {
            now += LOOK_INTERVAL;
            watcher.look(now, &|_| false).unwrap();
        }
        reads().unwrap() - before
    };
    // At first all of them are new.
    round();
    round();
    // Others start processes meanwhile, which are asked about too: the least of some rounds is taken.
    let least = (0..8).map(|_| round()).min().unwrap();
    sleepers.finish(Duration::from_secs(120)).unwrap();
    eprintln!("watching {count} processes takes {least} reads in {LOOKS} looks");
    // Two or three files of each process and one at each look take some ten reads and three. Twice as many may come; who asks about all
    // at each look comes to a hundred times as many.
    let most = 24 * count + 6 * u64::from(LOOKS);
    assert!(count > 500 && least < most, "{least} reads, at most {most}");
}

/// The oldest is alice's, who may call hers as she likes.
#[test]
fn by_name_the_processes_of_one_user_are_selected_and_what_they_start() {
    let mut fake = Fake::new("users");
    let own = |fake: &mut Fake, pid: i32, parent: i32, user: u32| {
        fake.process(pid, parent, "db");
        fake.executes(pid, "/usr/bin/db");
        fake.belongs_to(pid, user);
    };
    own(&mut fake, 5, 1, 1001);
    own(&mut fake, 7, 1, 0);
    // A worker of root's that has dropped its rights, and its child.
    own(&mut fake, 8, 7, 33);
    own(&mut fake, 9, 8, 33);
    let processes = named("db");
    let given = Given { processes: &processes, ..NOTHING };
    let machine = Processes::at(&fake.machine().proc);
    let selection = Selection::find(&given, &fake.machine()).unwrap().of_one_user(&machine);
    let mut watcher = Watcher::new(machine, selection.clone(), OWN);
    let name = |pid: i32| (pid, "name db".to_owned());
    assert_eq!(fake.look(&mut watcher), [name(7), name(8), name(9)]);
    own(&mut fake, 10, 5, 1001);
    own(&mut fake, 11, 1, 0);
    own(&mut fake, 12, 1, 33);
    // sudo, called so by alice, and her program.
    fake.process(13, 1, "db");
    fake.executes(13, "/usr/bin/sudo");
    fake.belongs_to(13, 0);
    own(&mut fake, 14, 13, 1001);
    assert_eq!(fake.look(&mut watcher), [name(11), name(13)]);
    let left: Vec<(i32, u32)> = selection.users.left_out().iter().map(|left| (left.pid, left.user)).collect();
    assert_eq!(left, [(5, 1001), (10, 1001), (12, 33), (14, 1001)]);
    assert_eq!((selection.users.left_out(), selection.users.meant()), (vec![], vec![0]));
    // Where no process has the name yet, it is the first one's.
    let fake = Fake::new("users-later");
    let machine = Processes::at(&fake.machine().proc);
    let selection = Selection::find(&given, &fake.machine()).unwrap().of_one_user(&machine);
    assert!(selection.users.meant().is_empty());
    assert!(selection.users.has(7) && !selection.users.has(0) && selection.users.has(7));
}

/// Not that of a process that another rule has selected.
#[test]
fn the_user_of_a_name_is_that_of_the_first_process_with_the_name() {
    let mut fake = Fake::new("users-of-groups");
    fake.process(5, 1, "cat");
    fake.belongs_to(5, 1001);
    fake.enter(5, "/system.slice/db.service");
    let (processes, units) = (named("db"), ["db".to_owned()]);
    let given = Given { processes: &processes, units: &units, ..NOTHING };
    let machine = Processes::at(&fake.machine().proc);
    let selection = Selection::find(&given, &fake.machine()).unwrap().of_one_user(&machine);
    let mut watcher = Watcher::new(machine, selection.clone(), OWN);
    assert_eq!(fake.look(&mut watcher), [(5, "unit db.service".to_owned())]);
    assert!(selection.users.meant().is_empty());
}
