//! Control groups, of version 1 and 2: where their hierarchies are mounted, what a path given by the user means, and
//! whether a process is in it.
//!
//! In: `/proc/PID/cgroup` and `/proc/self/mountinfo` as text (cgroups(7), proc_pid_mountinfo(5)), paths as the user writes
//! them. Out: [`Group`]s. A process in a group below is in the group. A path as `/proc/PID/cgroup` shows it means that of
//! any hierarchy; one below a mount means that hierarchy alone.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Folders that are looked at for a group by its name: more than any machine has groups.
const GROUPS_MAX: usize = 100_000;

/// Kinds of systemd's units that have processes (systemd.unit(5)).
const UNIT_SUFFIXES: [&str; 6] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];

/// A process's place in one hierarchy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// Empty for version 2, else as `cpu,cpuacct` or `name=systemd`.
    controllers: String,
    /// Below the mount of the hierarchy.
    pub path: String,
}

/// The lines of `/proc/PID/cgroup`: `number:controllers:path`.
pub fn memberships(text: &str) -> Vec<Membership> {
    let membership = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        Some(Membership { controllers: controllers.to_owned(), path: path.to_owned() })
    };
    text.lines().filter_map(membership).collect()
}

/// Where (a part of) a hierarchy is mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Of version 1, the options of its file system, among them its controllers; none for version 2.
    options: Option<BTreeSet<String>>,
    /// The group that the mount point shows.
    root: String,
    point: PathBuf,
}

impl Mount {
    fn shows(&self, membership: &Membership) -> bool {
        match &self.options {
            None => membership.controllers.is_empty(),
            Some(options) => {
                let mut controllers = membership.controllers.split(',');
                !membership.controllers.is_empty() && controllers.all(|name| options.contains(name))
            }
        }
    }

    /// Whether it is of the unified hierarchy, whose groups have numbers that programs see.
    pub fn is_version_2(&self) -> bool {
        self.options.is_none()
    }

    /// The folder of group `path`, if the mount shows it.
    fn folder(&self, path: &str) -> Option<PathBuf> {
        let below = below(path, &self.root)?;
        Some(self.point.join(below.trim_start_matches('/')))
    }
}

/// The mounts of `/proc/PID/mountinfo` that are of cgroups.
pub fn mounts(mountinfo: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
        let mut system = system.split(' ');
        let options = match system.next()? {
            "cgroup2" => None,
            "cgroup" => Some(system.nth(1)?.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        Some(Mount { options, root, point: point.into() })
    };
    mountinfo.lines().filter_map(mount).collect()
}

/// A blank and the like stand as three octal digits behind a backslash.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if code.is_ascii() => {
                out.push(char::from(code));
                out += &part[3..];
            }
            _ => {
                out.push('\\');
                out += part;
            }
        }
    }
    out
}

/// A group that the user named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Of this hierarchy alone.
    mount: Option<Mount>,
    path: String,
}

impl Group {
    /// What `given` means: a folder below a mount of cgroups, or a path as `/proc/PID/cgroup` shows it. The error says why it
    /// is nothing.
    pub fn find(given: &str, mounts: &[Mount]) -> Result<Group, String> {
        if mounts.is_empty() {
            return Err("no file system of cgroups is mounted on this machine".into());
        }
        if Path::new(given).components().any(|part| part == Component::ParentDir) {
            return Err(format!("the cgroup {given} has `..` in its path; write it without"));
        }
        let given_path = Path::new(given);
        let under = mounts.iter().filter(|mount| given_path.starts_with(&mount.point));
        if let Some(mount) = under.max_by_key(|mount| mount.point.as_os_str().len()) {
            let rest = given_path.strip_prefix(&mount.point).unwrap_or(given_path).to_string_lossy();
            let group = Group { mount: Some(mount.clone()), path: normal(&format!("{}/{rest}", mount.root)) };
            return if given_path.is_dir() { Ok(group) } else { Err(format!("there is no cgroup {given}")) };
        }
        let path = normal(given);
        if mounts.iter().filter_map(|mount| mount.folder(&path)).any(|folder| folder.is_dir()) {
            return Ok(Group { mount: None, path });
        }
        let points: BTreeSet<String> = mounts.iter().map(|mount| mount.point.display().to_string()).collect();
        let points = points.into_iter().collect::<Vec<_>>().join(", ");
        Err(format!("there is no cgroup {given}: paths are as in /proc/PID/cgroup, or below {points}"))
    }

    /// A process with these memberships is in the group, or below it.
    pub fn holds(&self, memberships: &[Membership]) -> bool {
        let of_hierarchy =
            |membership: &&Membership| self.mount.as_ref().is_none_or(|mount| mount.shows(membership));
        memberships
            .iter()
            .filter(of_hierarchy)
            .any(|membership| below(&membership.path, &self.path).is_some())
    }
}

/// With one `/` before each part and none behind the last.
fn normal(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("/{}", parts.join("/"))
}

/// What of `path` is below `root`.
fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// The name of a unit as its cgroup has it: a service unless it says otherwise.
pub fn unit_name(given: &str) -> String {
    match UNIT_SUFFIXES.iter().any(|suffix| given.ends_with(suffix)) {
        true => given.to_owned(),
        false => format!("{given}.service"),
    }
}

/// A process with these memberships is of this unit.
pub fn in_unit(unit: &str, memberships: &[Membership]) -> bool {
    memberships.iter().any(|membership| is_of_unit(unit, &membership.path))
}

/// A group of this path is of this unit of the system's manager. Slices hold units, and below another unit are groups that this one has made
/// itself: a user's own manager (`user@1000.service`) can call them like any unit of the system.
pub fn is_of_unit(unit: &str, path: &str) -> bool {
    let is_slice = |part: &str| part.ends_with(".slice");
    let is_unit = |part: &str| UNIT_SUFFIXES.iter().any(|suffix| part.ends_with(suffix)) && !is_slice(part);
    for part in path.split('/') {
        if weir_symbols::pattern::matches(unit, part) {
            return true;
        }
        // What is below a unit is that unit's own business.
        if is_unit(part) {
            return false;
        }
    }
    false
}

/// Number and path of the group of version 2 that a process with these memberships is in. The number is the inode of its folder. None
/// where no mount shows it.
pub fn number(memberships: &[Membership], mounts: &[Mount]) -> Option<(u64, String)> {
    let membership = memberships.iter().find(|membership| membership.controllers.is_empty())?;
    // One outside of this namespace begins with `..`.
    let is_outside = Path::new(&membership.path).components().any(|part| part == Component::ParentDir);
    let shown = mounts.iter().filter(|mount| !is_outside && mount.is_version_2());
    let folder = shown.filter_map(|mount| mount.folder(&membership.path)).find(|folder| folder.is_dir())?;
    Some((fs::metadata(folder).ok()?.ino(), membership.path.clone()))
}

/// The paths of all groups that there are, each once.
pub fn groups(mounts: &[Mount]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting: VecDeque<(PathBuf, String)> =
        mounts.iter().map(|mount| (mount.point.clone(), mount.root.clone())).collect();
    while let Some((folder, path)) = waiting.pop_front() {
        // One that may not be read, or that is gone, has nothing to show.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                waiting.push_back((entry.path(), normal(&format!("{path}/{name}"))));
            }
        }
        found.insert(path);
        if found.len() >= GROUPS_MAX {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n\
        41 31 0:38 /docker/ab /mnt/with\\040blank rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

    const LINES: &str = "\
        9:name=systemd:/system.slice/db.service\n\
        1:cpu,cpuacct:/system.slice/db.service/inner\n\
        0::/docker/ab/x:y (deleted)\n";

    fn group(mount: Option<&str>, path: &str) -> Group {
        let mounts = mounts(MIXED);
        let mount = mount.map(|point| mounts.iter().find(|m| m.point == Path::new(point)).unwrap().clone());
        Group { mount, path: path.into() }
    }

    #[track_caller]
    fn check_holds(mount: Option<&str>, path: &str, want: bool) {
        assert_eq!(group(mount, path).holds(&memberships(LINES)), want, "{mount:?} {path}");
    }

    #[test]
    fn mounts_of_both_versions_are_found() {
        let found = mounts(MIXED);
        let points: Vec<_> = found.iter().map(|mount| mount.point.to_str().unwrap()).collect();
        assert_eq!(points, ["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/systemd", "/mnt/with blank"]);
        assert_eq!(found[2].folder("/docker/ab/c"), Some("/mnt/with blank/c".into()));
        assert_eq!(found[2].folder("/docker/abc"), None);
        assert!(mounts("nonsense\n1 2 - cgroup2\n").is_empty());
    }

    #[test]
    fn a_group_holds_what_is_below_it() {
        check_holds(None, "/system.slice", true);
        check_holds(None, "/system.slice/db.service/inner", true);
        check_holds(None, "/system.slice/db", false);
        check_holds(None, "/", true);
        check_holds(None, "/docker/ab/x:y", true);
    }

    #[test]
    fn a_mount_means_its_own_hierarchy() {
        check_holds(Some("/sys/fs/cgroup/cpu,cpuacct"), "/system.slice/db.service/inner", true);
        check_holds(Some("/sys/fs/cgroup/systemd"), "/system.slice/db.service/inner", false);
        check_holds(Some("/sys/fs/cgroup/systemd"), "/system.slice/db.service", true);
        check_holds(Some("/mnt/with blank"), "/docker/ab", true);
        check_holds(Some("/mnt/with blank"), "/system.slice", false);
    }

    #[test]
    fn units_are_parts_of_a_path() {
        assert_eq!(unit_name("nginx"), "nginx.service");
        assert_eq!(unit_name("app.v2"), "app.v2.service");
        assert_eq!(unit_name("user.slice"), "user.slice");
        let lines = memberships(LINES);
        assert!(in_unit("db.service", &lines) && in_unit("d?.service", &lines));
        assert!(!in_unit("b.service", &lines) && !in_unit("inne", &lines));
        let of = |unit: &str, path: &str| is_of_unit(unit, path);
        let own = "/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service";
        assert!(!of("nginx.service", own) && !of("app.slice", own) && !of("nginx*", own));
        assert!(of("user.slice", own) && of("user@1000.service", own) && of("user-*", own));
        let instance = "/system.slice/system-pg.slice/pg@15-main.service/inner";
        assert!(
            of("pg@15-main.service", instance) && of("system-pg.slice", instance) && !of("inner", instance)
        );
    }

    #[test]
    fn groups_that_are_not_there_are_refused() {
        let error = |given: &str, mounts: &[Mount]| Group::find(given, mounts).unwrap_err();
        assert!(error("/a", &[]).contains("no file system of cgroups is mounted"));
        let mounts = mounts(MIXED);
        let message = error("no/such/group", &mounts);
        assert!(message.starts_with("there is no cgroup no/such/group: paths are as in"), "{message}");
        assert!(error("/sys/fs/cgroup/systemd/no-such", &mounts).starts_with("there is no cgroup /sys"));
        assert!(error("/a/../b", &mounts).contains("has `..`"));
    }

    #[test]
    fn a_group_that_is_shown_has_a_number() {
        let mounts = mounts(
            "41 31 0:38 /a /proc/self rw - cgroup2 cgroup2 rw\n42 31 0:39 / /proc rw - cgroup cgroup rw,cpu\n",
        );
        let check = |lines: &str, want: Option<(&str, &str)>| {
            let want = want.map(|(folder, path)| (fs::metadata(folder).unwrap().ino(), path.to_owned()));
            assert_eq!(number(&memberships(lines), &mounts), want, "{lines}");
        };
        check("1:cpu:/x\n0::/a/ns\n", Some(("/proc/self/ns", "/a/ns")));
        check("0::/a\n", Some(("/proc/self", "/a")));
        check("0::/b/ns\n", None);
        check("0::/a/../ns\n", None);
        check("0::/a/no-such\n", None);
        check("1:cpu:/a/ns\n", None);
    }

    #[test]
    fn what_the_kernel_shows_is_found_again() {
        let processes = crate::processes::Processes::at(Path::new("/proc"));
        let (mounts, own) = (processes.cgroup_mounts(), processes.cgroups(std::process::id() as i32));
        for mount in &mounts {
            let group = Group::find(mount.point.to_str().unwrap(), &mounts).unwrap();
            let shown = own.iter().any(|membership| mount.shows(membership));
            assert!(!shown || group.holds(&own), "{mount:?} {own:?}");
        }
        assert!(mounts.is_empty() || groups(&mounts).contains(&mounts[0].root));
    }
}
