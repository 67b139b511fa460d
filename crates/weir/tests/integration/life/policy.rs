//! What an administrator allows: who may trace what, and with what; what is not allowed touches nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testkit::paths::quoted;
use testkit::stranger::{self, ALICE, BOB, Folder};
use testkit::target;

use crate::life::worker::{self, Worker, weir};

const REFUSED: i32 = 1;

/// A worker of `uid`'s, and weir run by that user.
pub(crate) struct Scene {
    pub(crate) folder: Folder,
    pub(crate) worker: Worker,
    pub(crate) program: PathBuf,
    pub(crate) weir: PathBuf,
}

impl Scene {
    /// None where this process cannot become somebody else, which is told.
    pub(crate) fn of(uid: u32) -> Option<Scene> {
        if !stranger::is_possible() {
            testkit::skip::skip("policy", "needs root and setpriv, to become somebody else");
            return None;
        }
        let folder = Folder::new();
        let (program, weir) =
            (folder.copy(&worker::program()), folder.copy(Path::new(env!("CARGO_BIN_EXE_weir"))));
        let worker = Worker::start(stranger::command(uid, &[], &[], &program));
        Some(Scene { folder, worker, program, weir })
    }

    pub(crate) fn trace(&self, uid: u32, groups: &[u32], policy: &Path, action: &str) -> Output {
        self.command(uid, groups, policy, action).output().unwrap()
    }

    fn command(&self, uid: u32, groups: &[u32], policy: &Path, action: &str) -> Command {
        let mut command = stranger::command(uid, groups, &[], &self.weir);
        let script =
            format!("uprobe:{}:work {{ {action} }} interval:ms:20 {{ exit(); }}", quoted(&self.program));
        command.args(["trace", "-e", &script, "-p", &self.worker.pid.to_string()]);
        command.arg("--policy").arg(policy).stdin(Stdio::null());
        command
    }

    pub(crate) fn is_untouched(&self) -> bool {
        testkit::mapped::of_weir_in(self.worker.pid).is_empty()
    }

    #[track_caller]
    pub(crate) fn check_denied(&self, output: &Output, parts: &[&str]) {
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(REFUSED), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}:\n{message}");
        assert!(self.is_untouched());
    }
}

#[track_caller]
pub(crate) fn check_done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_rule_allows_a_program_to_a_user_and_a_group() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let folder = scene.folder.path().display().to_string();
    let rule = |who: &str| {
        let text = format!("[[allow]]\n{who}\nprograms = [\"{folder}/*\"]\n");
        scene.folder.write("policy.toml", &text)
    };
    check_done(&scene.trace(ALICE, &[], &rule(&format!("users = [{ALICE}]")), "@ = count();"));
    check_done(&scene.trace(ALICE, &[77_001], &rule("groups = [77001]"), "@ = count();"));
    let denied = scene.trace(ALICE, &[77_002], &rule("groups = [77001]"), "@ = count();");
    scene.check_denied(
        &denied,
        &[
            "policy.toml",
            &format!("user {ALICE} may not trace process"),
            "worker",
            "allowed to group 77001",
            "and root",
        ],
    );
    scene.worker.end();
}

#[test]
fn a_rule_for_other_programs_or_units_denies() {
    let Some(scene) = Scene::of(ALICE) else { return };
    for what in ["programs = [\"/usr/sbin/nginx\"]", "units = [\"weir-no-such-unit*\"]"] {
        let text = format!("[[allow]]\nusers = [{ALICE}]\n{what}\n");
        let policy = scene.folder.write("policy.toml", &text);
        let denied = scene.trace(ALICE, &[], &policy, "@ = count();");
        scene.check_denied(&denied, &["policy.toml:1", "lets them trace", "root alone"]);
    }
    scene.worker.end();
}

#[test]
fn reading_memory_is_allowed_apart() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let policy = |more: &str| {
        let text = format!("[[allow]]\nusers = [{ALICE}]\nprograms = [\"*\"]\n{more}");
        scene.folder.write("policy.toml", &text)
    };
    check_done(&scene.trace(ALICE, &[], &policy(""), "@[arg0] = hist(arg0);"));
    let denied = scene.trace(ALICE, &[], &policy(""), "@[str(arg0)] = count();");
    scene.check_denied(&denied, &["policy.toml:1 does not say `read_memory = true`", "probe_read_user_str"]);
    check_done(&scene.trace(ALICE, &[], &policy("read_memory = true\n"), "@[str(arg0)] = count();"));
    scene.worker.end();
}

/// A program of the user's, whose helper reads a string at an address. It is asked before the clause.
const PRINTS: &str = "program \"prints\" probe
*(u64 *)(r10 - 8) = 0x7325
r3 = *(u64 *)(r1 + 0x70)
r1 = r10
r1 += -0x8
r2 = 0x3
r4 = 0x0
r5 = 0x0
call trace_printk
r0 = 0x1
exit
";

#[test]
fn memory_is_read_by_formats_filters_and_copied_strings_too() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let program = scene.folder.write("prints.bpf.s", PRINTS).display().to_string();
    let emits = scene.folder.copy(&target::program("emits"));
    let policy = |more: &str| {
        let text = format!("[[allow]]\nusers = [{ALICE}]\nprograms = [\"*\"]\n{more}");
        scene.folder.write("policy.toml", &text)
    };
    let own = scene.folder.path().join("alice");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(ALICE), Some(ALICE)).unwrap();
    let record = |number: u32, policy: &Path, event: &str, filter: &[&str]| {
        let mut command = stranger::command(ALICE, &[], &[], &scene.weir);
        command.args(["record", "-e", event, "-o"]).arg(own.join(number.to_string())).args(filter);
        command.arg("--policy").arg(policy).arg("--").arg(&emits);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let filter = ["--filter", "text == \"number 5*\""];
    let asked = |policy: &Path| {
        let mut command = scene.command(ALICE, &[], policy, "@ = count();");
        command.args(["--program", &program]).output().unwrap()
    };
    let denied = [
        (asked(&policy("")), "trace_printk"),
        (record(1, &policy(""), "ses:two", &[]), "weir_declared_copy"),
        (record(2, &policy(""), "ses:two", &filter), "weir_"),
    ];
    for (denied, callee) in &denied {
        scene.check_denied(denied, &["policy.toml:1 does not say `read_memory = true`", callee]);
    }
    check_done(&record(3, &policy(""), "ses:one", &[]));
    let policy = policy("read_memory = true\n");
    check_done(&asked(&policy));
    check_done(&record(4, &policy, "ses:two", &filter));
    scene.worker.end();
}

#[test]
fn a_budget_of_the_policy_binds_the_command_line() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let text = format!("[default]\nbudget = \"4KiB\"\n[[allow]]\nusers = [{ALICE}]\nprograms = [\"*\"]\n");
    let denied = scene.trace(ALICE, &[], &scene.folder.write("policy.toml", &text), "@ = count();");
    scene.check_denied(&denied, &["the budget is 4KiB", "max_map_keys"]);
    // Whose it is, is told, whatever the command line allows.
    let mut command = scene.command(ALICE, &[], &scene.folder.write("policy.toml", &text), "@ = count();");
    let denied = command.args(["--budget", "1GiB"]).output().unwrap();
    let from = format!(
        "(--budget allows 1GiB, the policy {} allows 4KiB)",
        scene.folder.path().join("policy.toml").display()
    );
    scene.check_denied(&denied, &["the budget is 4KiB", &from]);
    let text = text + "budget = \"64MiB\"\n";
    check_done(&scene.trace(ALICE, &[], &scene.folder.write("policy.toml", &text), "@ = count();"));
    scene.worker.end();
}

#[test]
fn a_command_that_is_not_allowed_does_not_run() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let policy = scene.folder.write("policy.toml", "allow = []\n");
    let mut command = stranger::command(ALICE, &[], &[], &scene.weir);
    command.args(["trace", "-e", "uprobe:libc:puts { @ = count(); }", "-c", "/bin/echo it ran"]);
    let denied = command.arg("--policy").arg(&policy).output().unwrap();
    scene.check_denied(&denied, &["may not trace", "/bin/echo"]);
    assert!(!String::from_utf8_lossy(&denied.stdout).contains("it ran"));
    scene.worker.end();
}

#[test]
fn a_file_that_others_may_write_is_not_followed() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let policy = scene.folder.write("policy.toml", "");
    let run = || scene.trace(ALICE, &[], &policy, "@ = count();");
    check_done(&run());
    fs::set_permissions(&policy, Permissions::from_mode(0o664)).unwrap();
    scene.check_denied(&run(), &["policy.toml is not followed", "mode 0664", "chmod go-w"]);
    fs::set_permissions(&policy, Permissions::from_mode(0o644)).unwrap();
    chown(&policy, Some(BOB), None).unwrap();
    scene.check_denied(&run(), &[&format!("belongs to user {BOB}"), "chown root"]);
    // What the caller writes can only take away; and a link is followed to what it means.
    chown(&policy, Some(ALICE), None).unwrap();
    check_done(&run());
    let link = scene.folder.path().join("link.toml");
    symlink(&policy, &link).unwrap();
    fs::set_permissions(&policy, Permissions::from_mode(0o646)).unwrap();
    scene.check_denied(&scene.trace(ALICE, &[], &link, "@ = count();"), &["link.toml", "mode 0646"]);
    scene.worker.end();
}

#[test]
fn every_mistake_is_told_at_its_place() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let policy = scene.folder.write("policy.toml", "audti = \"off\"\n[default]\nbudget = \"fast\"\n");
    let denied = scene.trace(ALICE, &[], &policy, "@ = count();");
    scene.check_denied(&denied, &["it has 2 mistakes", "policy.toml:1:1", "`audit`?", "policy.toml:3:10"]);
    let missing = scene.trace(ALICE, &[], Path::new("/no/such/policy.toml"), "@ = count();");
    scene.check_denied(&missing, &["/no/such/policy.toml", "No such file"]);
    scene.worker.end();
}

/// Runs `script` where /etc/weir/policy.toml has this text: in a mount namespace of its own.
fn with_system_policy(folder: &Folder, text: &str, script: &str) -> Option<Output> {
    let etc = folder.path().join("etc");
    let copied = Command::new("cp").args(["-a", "/etc"]).arg(&etc).status().unwrap();
    assert!(copied.success());
    fs::create_dir_all(etc.join("weir")).unwrap();
    fs::write(etc.join("weir/policy.toml"), text).unwrap();
    fs::set_permissions(etc.join("weir/policy.toml"), Permissions::from_mode(0o644)).unwrap();
    let line = format!("mount --bind {} /etc || exit 99; {script}", quoted(&etc));
    let output = Command::new("unshare").args(["-m", "sh", "-c", &line]).output().ok()?;
    (output.status.code() != Some(99)).then_some(output)
}

#[test]
fn the_administrators_policy_binds_root_by_its_default_and_others_by_its_rules() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let text = format!("[default]\nbudget = \"4KiB\"\n[[allow]]\nusers = [{BOB}]\nprograms = [\"*\"]\n");
    let script = format!("'uprobe:{}:work {{ @ = count(); }}'", quoted(&scene.program));
    let (weir, pid) = (quoted(&scene.weir), scene.worker.pid);
    let trace = format!("{weir} trace -e {script} -p {pid}");
    let run = |line: &str| with_system_policy(&scene.folder, &text, line);
    let Some(root) = run(&trace) else {
        return testkit::skip::skip(
            "policy-system",
            "mounts in a namespace of one's own are not possible here",
        );
    };
    scene.check_denied(&root, &["the budget is 4KiB"]);
    let alice = run(&format!("setpriv --reuid={ALICE} --regid={ALICE} --clear-groups {trace}")).unwrap();
    let allowed = format!("allowed to user {BOB} (/etc/weir/policy.toml:3)");
    scene.check_denied(&alice, &["/etc/weir/policy.toml", &allowed]);
    let doctor = run(&format!("setpriv --reuid={BOB} --regid={BOB} --clear-groups {weir} doctor")).unwrap();
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let line = format!("policy /etc/weir/policy.toml: user {BOB} may trace programs * within 4KiB");
    assert!(told.contains(&line), "{told}");
    let own = String::from_utf8(weir_doctor().stdout).unwrap();
    assert!(
        Path::new("/etc/weir/policy.toml").exists() || own.contains("no policy in /etc/weir/policy.toml"),
        "{own}"
    );
    scene.worker.end();
}

fn weir_doctor() -> Output {
    weir().arg("doctor").output().unwrap()
}

/// `setcap cap_sys_ptrace+ep weir` lets every user who may execute it trace everything: that wants rules.
#[test]
fn a_file_capability_is_lent_by_the_administrators_rules_alone() {
    let (Some(others), Some(own)) = (Scene::of(BOB), Scene::of(ALICE)) else { return };
    if !stranger::lend_sys_ptrace(&own.weir) {
        return testkit::skip::skip("policy-capability", "files have no capabilities here");
    }
    let script = |scene: &Scene| format!("uprobe:{}:work {{ @ = count(); }}", quoted(&scene.program));
    let exits = |scene: &Scene| format!("{} interval:ms:20 {{ exit(); }}", script(scene));
    let pid = |scene: &Scene| scene.worker.pid.to_string();
    let run = |args: &[&str]| stranger::command(ALICE, &[], &[], &own.weir).args(args).output().unwrap();
    let trace = |scene: &Scene| run(&["trace", "-e", &exits(scene), "-p", &pid(scene)]);
    let reasons = [
        &format!("user {ALICE} may not trace"),
        &format!("runs as user {BOB}"),
        "a capability that its user lacks",
    ];
    others.check_denied(&trace(&others), &reasons.map(AsRef::as_ref));
    others.check_denied(&run(&["list", "-p", &pid(&others)]), &reasons.map(AsRef::as_ref));
    check_done(&trace(&own));
    // A policy of the caller's can only take away.
    let rule = format!("[[allow]]\nusers = [{ALICE}]\nprograms = [\"*\"]\n");
    let policy = own.folder.write("own.toml", &rule).display().to_string();
    let with_own = run(&["trace", "-e", &exits(&others), "-p", &pid(&others), "--policy", &policy]);
    others.check_denied(&with_own, &["a capability that its user lacks"]);
    // Nor is reported who traces it, and with what.
    let mut command = weir();
    command.args(["trace", "-e", &script(&others), "-p", &pid(&others)]);
    let traced = testkit::Daemon::spawn(command).unwrap();
    let of = |output: Output| String::from_utf8(output.stdout).unwrap();
    let is_listed = |table: String| table.contains(&pid(&others));
    assert!(testkit::wait::until(worker::DEADLINE, || is_listed(of(weir().arg("ps").output().unwrap()))));
    assert!(!is_listed(of(run(&["ps"]))) && !is_listed(of(run(&["top", "-n", "1"]))));
    traced.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(traced.finish(worker::DEADLINE).unwrap().status.success());
    // With rules of the administrator's all of it is possible.
    let line = format!(
        "setpriv --reuid={ALICE} --regid={ALICE} --clear-groups {} trace -e '{}' -p {}",
        quoted(&own.weir),
        exits(&others),
        pid(&others)
    );
    if let Some(allowed) = with_system_policy(&own.folder, &rule, &line) {
        check_done(&allowed);
    }
    own.worker.end();
    others.worker.end();
}
