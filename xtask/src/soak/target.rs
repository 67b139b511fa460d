//! Target: the code of a running process, to compare before and after.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, bail};

/// The bytes of every executable mapping of a file, in address order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Code {
    mappings: Vec<(u64, String, Vec<u8>)>,
}

impl Code {
    /// Reads a process's code; the reader must be allowed to trace it.
    pub(super) fn of(pid: i32) -> Result<Code> {
        let maps =
            fs::read_to_string(format!("/proc/{pid}/maps")).with_context(|| format!("maps of {pid}"))?;
        let memory = File::open(format!("/proc/{pid}/mem")).with_context(|| format!("memory of {pid}"))?;
        let mut mappings = Vec::new();
        for (start, end, path) in executable_files(&maps) {
            let mut bytes = vec![0; (end - start) as usize];
            memory
                .read_exact_at(&mut bytes, start)
                .with_context(|| format!("{path} at {start:#x} of {pid}"))?;
            mappings.push((start, path.to_string(), bytes));
        }
        Ok(Code { mappings })
    }

    /// An error that names the first difference.
    pub(super) fn check_same(&self, after: &Code) -> Result<()> {
        for (start, path, before) in &self.mappings {
            let found = after.mappings.iter().find(|(at, name, _)| at == start && name == path);
            let Some((_, _, after)) = found else { bail!("{path} at {start:#x} is not mapped any more") };
            if let Some(offset) = before.iter().zip(after).position(|(before, after)| before != after) {
                bail!("{path} at {:#x}: byte {:#x} is {:#x}", start, before[offset], after[offset]);
            }
        }
        Ok(())
    }
}

/// Start, end and path of executable mappings of files; memfds of a tracer are not files.
fn executable_files(maps: &str) -> Vec<(u64, u64, &str)> {
    let parse = |line: &'_ str| {
        let (range, rest) = line.split_once(' ')?;
        let path = line.find('/').map(|at| at..)?;
        let executable = rest.as_bytes().get(2) == Some(&b'x');
        let (start, end) = range.split_once('-')?;
        let bound = |text| u64::from_str_radix(text, 16).ok();
        Some((bound(start)?, bound(end)?, path, executable))
    };
    maps.lines()
        .filter_map(|line| {
            let (start, end, path, executable) = parse(line)?;
            let path = &line[path];
            (executable && !path.starts_with("/memfd:")).then_some((start, end, path))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_is_compared() {
        let maps = "00400000-00401000 r-xp 00000000 08:01 1 /bin/x y\n\
                    00401000-00402000 rw-p 00001000 08:01 1 /bin/x y\n\
                    7f0000000000-7f0000001000 r-xp 00000000 00:05 2 /memfd:weir (deleted)\n\
                    7fff00000000-7fff00001000 r-xp 00000000 00:00 0 [vdso]\n";
        assert_eq!(executable_files(maps), [(0x400000, 0x401000, "/bin/x y")]);
    }

    #[test]
    fn a_changed_byte_is_named() {
        let code = |byte| Code { mappings: vec![(0x1000, "/bin/x".to_string(), vec![1, byte])] };
        assert!(code(2).check_same(&code(2)).is_ok());
        assert!(format!("{}", code(2).check_same(&code(3)).unwrap_err()).contains("/bin/x at 0x1000"));
    }

    #[test]
    fn this_process_has_code() {
        let code = Code::of(std::process::id() as i32).unwrap();
        assert!(!code.mappings.is_empty());
        code.check_same(&Code::of(std::process::id() as i32).unwrap()).unwrap();
    }
}
