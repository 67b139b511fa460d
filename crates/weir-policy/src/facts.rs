//! What a policy asks about, looked up: who runs weir, and what a process is.
//!
//! In: the kernel's answers, and the databases of users and groups. Out: a [`Caller`], [`Subject`]s. The unit is that of the
//! system's manager, which users cannot give to processes of their own; one of a user's manager counts as `user@UID.service`.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{self, Gid, Group, Uid, User};

use crate::policy::{Account, Caller, Subject};

/// The real user, which sudo and the like have set, and all groups.
pub fn caller() -> Caller {
    let mut groups = vec![unistd::getgid()];
    groups.extend(unistd::getgroups().unwrap_or_default());
    groups.sort_unstable_by_key(|gid| gid.as_raw());
    groups.dedup();
    Caller { user: user(unistd::getuid()), groups: groups.into_iter().map(group).collect() }
}

/// With the name that the system has for it.
pub fn user(uid: Uid) -> Account {
    let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
    Account { id: uid.as_raw(), name }
}

fn group(gid: Gid) -> Account {
    let name = Group::from_gid(gid).ok().flatten().map(|group| group.name);
    Account { id: gid.as_raw(), name }
}

/// What process `pid` is now. What may not be looked up is empty, and no rule is for that.
pub fn subject(pid: i32) -> Subject {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let link = |name: &str| fs::read_link(folder.join(name)).unwrap_or_default();
    let cgroup = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
    let program = in_root(&link("exe"), &link("root"));
    Subject { pid, program, unit: unit_of(&cgroup) }
}

/// An executable's path as its process sees it, also where the file has been replaced since.
fn in_root(program: &Path, root: &Path) -> String {
    let inside = match program.strip_prefix(root) {
        Ok(inside) if !matches!(root.to_str(), Some("/" | "")) => Path::new("/").join(inside),
        _ => program.to_owned(),
    };
    let text = inside.to_string_lossy();
    text.strip_suffix(" (deleted)").unwrap_or(&text).to_owned()
}

/// The unit of `/proc/PID/cgroup`: the first part of the path that is one and is not a slice, as systemd has it.
fn unit_of(cgroup: &str) -> Option<String> {
    let path = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        (controllers.is_empty() || controllers == "name=systemd").then(|| path.to_owned())
    };
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    let of_path = |path: String| path.split('/').map(unescape).find(is_unit).map(str::to_owned);
    cgroup.lines().filter_map(path).find_map(of_path)
}

/// A name that the kernel would take for a file of its own has a `_` before it.
fn unescape(part: &str) -> &str {
    part.strip_prefix('_').unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_systems_manager() {
        let check =
            |cgroup: &str, unit: Option<&str>| assert_eq!(unit_of(cgroup).as_deref(), unit, "{cgroup}");
        check("0::/system.slice/nginx.service\n", Some("nginx.service"));
        check(
            "0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n",
            Some("postgresql@15-main.service"),
        );
        check("0::/system.slice/docker-0123.scope/inner.service\n", Some("docker-0123.scope"));
        // What a user calls a unit of their own is no unit of the system.
        check(
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service\n",
            Some("user@1000.service"),
        );
        check("2:cpu:/a.service\n1:name=systemd:/system.slice/b.service\n0::/\n", Some("b.service"));
        check("0::/system.slice/_cgroup.service\n", Some("cgroup.service"));
        check("0::/\n", None);
        check("", None);
        check("nonsense\n", None);
    }

    #[test]
    fn programs_are_named_as_their_processes_see_them() {
        let check = |program: &str, root: &str, want: &str| {
            assert_eq!(in_root(Path::new(program), Path::new(root)), want);
        };
        check("/usr/bin/app", "/", "/usr/bin/app");
        check("/srv/jail/usr/bin/app", "/srv/jail", "/usr/bin/app");
        check("/usr/bin/app (deleted)", "/", "/usr/bin/app");
        check("", "", "");
    }

    #[test]
    fn this_process_is_known() {
        let own = subject(std::process::id() as i32);
        assert!(own.program.contains("weir"), "{own:?}");
        assert_eq!(caller().user.id, unistd::getuid().as_raw());
    }
}
