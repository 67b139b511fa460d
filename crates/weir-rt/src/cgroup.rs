//! The control group of version 2 that this process is in: its folder, and its number.
//!
//! In: /proc/self/cgroup, /proc/self/mountinfo (cgroups(7), proc_pid_mountinfo(5)). Out: a folder; the inode of that, which is what the
//! kernel's `bpf_get_current_cgroup_id` answers. None where the hierarchy is not mounted, or the group lies outside of what a
//! mount or this process's namespace shows.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Its number.
pub(crate) fn own_id() -> Option<u64> {
    Some(fs::metadata(own()?).ok()?.ino())
}

/// Its folder.
pub(crate) fn own() -> Option<PathBuf> {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
    folder(&read("cgroup")?, &read("mountinfo")?)
}

fn folder(cgroup: &str, mountinfo: &str) -> Option<PathBuf> {
    let path = Path::new(cgroup.lines().find_map(|line| line.strip_prefix("0::"))?);
    // One outside of this namespace begins with `..`.
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let folder = |line: &str| {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = path.strip_prefix(root).ok()?;
        system.starts_with("cgroup2 ").then(|| Path::new(point).join(below))
    };
    mountinfo.lines().find_map(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const MIXED: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime shared:9 - cgroup cgroup rw,xattr,name=systemd\n\
        41 31 0:38 /docker/ab /sys/fs/cgroup/unified rw,relatime shared:10 - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_group_is_found_where_it_can_be_seen() {
        let check = |cgroup: &str, mountinfo: &str, want: Option<&str>| {
            assert_eq!(folder(cgroup, mountinfo).as_deref(), want.map(Path::new), "{cgroup}")
        };
        check("0::/user.slice/a.scope\n", ONE, Some("/sys/fs/cgroup/user.slice/a.scope"));
        check("4:memory:/x\n0::/\n", ONE, Some("/sys/fs/cgroup/"));
        check("4:memory:/x\n0::/docker/ab/c\n", MIXED, Some("/sys/fs/cgroup/unified/c"));
        check("0::/docker/abc\n", MIXED, None);
        check("4:memory:/x\n", ONE, None);
        check("0::/../other\n", ONE, None);
        check("0::/a\n", "", None);
        check("", ONE, None);
    }

    #[test]
    fn this_process_is_in_one_if_the_kernel_shows_any() {
        let Some(folder) = own() else { return };
        let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        let own = std::process::id().to_string();
        // A reader from another pid namespace is shown a 0.
        assert!(processes.lines().any(|line| line == own || line == "0"), "{folder:?}: {processes}");
        assert_eq!(own_id(), fs::metadata(&folder).ok().map(|folder| folder.ino()));
    }
}
