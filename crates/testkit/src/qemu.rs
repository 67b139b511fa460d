//! A virtual machine with another kernel than the running one: what this machine's kernel lacks is tested in it.
//!
//! In: a kernel's image, files and a script. Out: what the script wrote, and its exit code. The machine is emulated (no KVM), and has one
//! processor, busybox's programs, the files that are named with the libraries that they load, at the same paths, and neither disk nor network.
//! It ends with the script.
//!
//! `cargo xtask test` and `cargo xtask vmtest` fetch the images ([`IMAGE`]).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::paths;

/// The variable that names the image of a kernel; without it, it is the one that `cargo xtask test` fetches.
pub const IMAGE: &str = "WEIR_TEST_KERNEL";
/// That one, below [`paths::target`].
const FETCHED: &str = "kernels/bookworm-backports/vmlinuz";

const QEMU: &str = "qemu-system-x86_64";
const BUSYBOX: &str = "/bin/busybox";

/// What is at the end of a script's output: its exit code follows.
const END: &str = "the script ended with ";

/// What the script of a machine came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// All that it wrote.
    pub output: String,
    /// None: the machine ended before the script.
    pub code: Option<i32>,
    /// What the kernel wrote to its console.
    pub console: String,
}

/// The image that tests boot; or what is missing.
pub fn image() -> Result<PathBuf, String> {
    let image = match std::env::var_os(IMAGE) {
        Some(image) => PathBuf::from(image),
        None => paths::target().join(FETCHED),
    };
    if !image.is_file() {
        return Err(format!("no kernel at {}; `cargo xtask vmtest` fetches one", image.display()));
    }
    if !Path::new(BUSYBOX).is_file() || Command::new(QEMU).arg("--version").output().is_err() {
        return Err(format!("no {QEMU} or no {BUSYBOX} (Debian: qemu-system-x86, busybox-static)"));
    }
    Ok(image)
}

/// What a machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    pub memory_mib: u32,
    /// Its clocks go by the instructions that it has executed, a nanosecond for each.
    pub counts_instructions: bool,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine { memory_mib: 1024, counts_instructions: false }
    }
}

/// Boots `image` with `files`, runs the script in its shell, and waits for its end; at the limit the machine is ended.
///
/// # Panics
/// Where the machine cannot be made or started.
pub fn run(image: &Path, files: &[PathBuf], script: &str, limit: Duration) -> Outcome {
    run_on(Machine::default(), image, &Files { with_libraries: files, alone: &[] }, script, limit)
}

/// What is put into a machine, at the same paths.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// With the libraries that they load here.
    pub with_libraries: &'a [PathBuf],
    /// As they are, links too.
    pub alone: &'a [PathBuf],
}

/// The same on a machine that has this.
///
/// # Panics
/// Where the machine cannot be made or started.
pub fn run_on(machine: Machine, image: &Path, files: &Files<'_>, script: &str, limit: Duration) -> Outcome {
    let clock: &[&str] = match machine.counts_instructions {
        true => &["-icount", "shift=0,align=off,sleep=off"],
        false => &[],
    };
    let folder = paths::fresh("qemu", "machine");
    fs::create_dir_all(&folder).unwrap();
    let (archive, output, console) = (folder.join("initrd"), folder.join("output"), folder.join("console"));
    let mut writer = BufWriter::new(File::create(&archive).unwrap());
    write_archive(&mut writer, files, script)
        .unwrap_or_else(|error| panic!("{}: {error}", archive.display()));
    writer.flush().unwrap();
    // Whoever is killed, the machine ends.
    Command::new("timeout")
        .args(["--signal=KILL", &limit.as_secs().to_string(), QEMU, "-accel", "tcg"])
        // QEMU 7.2's cmpxchg16b leaves flags that end in a double fault at times: the kernel does without it.
        .args([
            "-cpu",
            "max,-cx16",
            "-smp",
            "1",
            "-m",
            &machine.memory_mib.to_string(),
            "-nodefaults",
            "-display",
            "none",
        ])
        .args(clock)
        // Without what a kernel does against attacks, which an emulated processor pays for.
        .args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"])
        .args(["-no-reboot", "-kernel"])
        .args([image.as_os_str(), OsStr::new("-initrd"), archive.as_os_str()])
        .args(["-serial", &written_to(&console), "-serial", &written_to(&output)])
        .stdin(Stdio::null())
        .status()
        .unwrap_or_else(|error| panic!("timeout {QEMU}: {error}"));
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let outcome = outcome(&read(&output), read(&console));
    fs::remove_dir_all(&folder).unwrap();
    outcome
}

/// A serial line, as QEMU has it.
fn written_to(path: &Path) -> String {
    format!("file:{}", path.display().to_string().replace(',', ",,"))
}

fn outcome(written: &str, console: String) -> Outcome {
    let (output, code) = match written.rsplit_once(END) {
        Some((output, code)) => (output, code.trim().parse().ok()),
        None => (written, None),
    };
    Outcome { output: output.to_owned(), code, console }
}

/// What the kernel starts first. The second serial line is for the script alone.
fn init(script: &str) -> String {
    format!(
        "#!{BUSYBOX} sh\n\
         {BUSYBOX} mkdir -p /proc /sys /dev /tmp /etc /bin\n\
         {BUSYBOX} --install -s /bin\n\
         export PATH=/usr/bin:/bin HOME=/tmp\n\
         mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev\n\
         mount -t tracefs tracefs /sys/kernel/tracing; mount -t debugfs debugfs /sys/kernel/debug\n\
         mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup\n\
         echo machine > /etc/hostname\n\
         stty -F /dev/ttyS1 raw 115200\n\
         ( {script}\n ) > /dev/ttyS1 2>&1\n\
         echo \"{END}$?\" > /dev/ttyS1\n\
         poweroff -f\n"
    )
}

/// A file system that the kernel unpacks into memory: a cpio archive in the form `newc` (Linux Documentation/driver-api/early-userspace/buffer-format.rst).
fn write_archive(to: &mut impl Write, files: &Files<'_>, script: &str) -> io::Result<()> {
    let mut all = BTreeSet::from([PathBuf::from(BUSYBOX)]);
    all.extend(files.alone.iter().cloned());
    for file in files.with_libraries {
        all.extend(libraries(file));
        all.insert(file.clone());
    }
    let folders: BTreeSet<&Path> = all.iter().flat_map(|file| file.ancestors().skip(1)).collect();
    let links: BTreeSet<&PathBuf> = files.alone.iter().collect();
    for folder in folders.into_iter().filter(|folder| *folder != Path::new("/")) {
        write_entry(to, folder, 0o040_755, &[])?;
    }
    for file in &all {
        if let Ok(target) = fs::read_link(file)
            && links.contains(file)
        {
            write_entry(to, file, 0o120_777, target.as_os_str().as_encoded_bytes())?;
            continue;
        }
        let mode = fs::metadata(file)?.permissions().mode();
        write_entry(to, file, 0o100_000 | mode & 0o777, &fs::read(file)?)?;
    }
    write_entry(to, Path::new("/init"), 0o100_755, init(script).as_bytes())?;
    write_entry(to, Path::new("/TRAILER!!!"), 0, &[])
}

fn write_entry(to: &mut impl Write, path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_encoded_bytes();
    let bytes = u32::try_from(contents.len()).map_err(io::Error::other)?;
    // inode, mode, user, group, links, time, bytes, four numbers of devices, bytes of the name with its 0, check
    let numbers = [0, mode, 0, 0, 1, 0, bytes, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    let mut header = b"070701".to_vec();
    numbers.iter().for_each(|number| header.extend(format!("{number:08x}").bytes()));
    header.extend(name);
    header.push(0);
    header.resize(header.len().next_multiple_of(4), 0);
    to.write_all(&header)?;
    to.write_all(contents)?;
    to.write_all(&[0; 3][..contents.len().next_multiple_of(4) - contents.len()])
}

/// The libraries that a program loads, with the dynamic linker; none of a static one.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let Ok(output) = Command::new("ldd").arg(program).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f…)`, `/lib64/ld-linux-x86-64.so.2 (0x…)`
    let of_line = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    text.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_wrote_ends_with_the_exit_code_of_its_script() {
        let all = |written: &str| {
            let Outcome { output, code, .. } = outcome(written, String::new());
            (output, code)
        };
        assert_eq!(all("a\nthe script ended with 3\n"), ("a\n".to_owned(), Some(3)));
        assert_eq!(all("a\n"), ("a\n".to_owned(), None));
        assert_eq!(all("a\nthe script ended with "), ("a\n".to_owned(), None));
    }

    #[test]
    fn an_archive_has_the_folders_of_its_files_before_them() {
        let mut bytes = Vec::new();
        let files = [PathBuf::from("/proc/self/exe")];
        write_archive(&mut bytes, &Files { with_libraries: &files, alone: &[] }, "true").unwrap();
        let (mut names, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let number = |from: usize| {
                let digits = std::str::from_utf8(&bytes[at + from..at + from + 8]).unwrap();
                usize::from_str_radix(digits, 16).unwrap()
            };
            let (contents, name) = (number(54), number(94));
            names.push(String::from_utf8(bytes[at + 110..at + 110 + name - 1].to_vec()).unwrap());
            at += (110 + name).next_multiple_of(4) + contents.next_multiple_of(4);
        }
        let place = |name: &str| names.iter().position(|found| found == name).unwrap();
        let order = ["proc", "proc/self", "proc/self/exe", "init", "TRAILER!!!"].map(place);
        assert!(order.is_sorted(), "{names:?}");
        assert_eq!(at, bytes.len());
    }
}
