//! What of weir's is mapped in a process, by the names of weir's files: not by the word alone, which the folder of a clone may
//! be called by too.
//!
//! In: the text of `/proc/PID/maps`. Out: its lines of weir's mappings. It shares nothing with the code of weir that finds them.

use std::fs;

/// What weir's files in memory are called by, as `/proc/PID/maps` shows them (memfd_create(2)): weir-segment, weir-maps, weir-code,
/// weir-outpost, weir-records, weir-local.
const PREFIX: &str = "/memfd:weir-";

/// Fields of a line in front of its path: addresses, permissions, offset, device, inode.
const FIELDS: usize = 5;

/// The lines of what weir has mapped.
pub fn of_weir(maps: &str) -> Vec<&str> {
    maps.lines().filter(|line| path(line).starts_with(PREFIX)).collect()
}

/// The same of a process that runs. Panics if there is none.
pub fn of_weir_in(process: u32) -> Vec<String> {
    let file = format!("/proc/{process}/maps");
    let maps = fs::read_to_string(&file).unwrap_or_else(|e| panic!("read {file}: {e}"));
    of_weir(&maps).into_iter().map(str::to_owned).collect()
}

/// The path of a line, which may have blanks in it; empty for memory of no file.
fn path(line: &str) -> &str {
    (0..FIELDS)
        .fold(line, |rest, _| rest.trim_start().split_once(' ').map_or("", |(_, rest)| rest))
        .trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, is_weirs: bool) {
        let line = format!("7f52a4c00000-7f52a4c21000 r-xp 00000000 00:01 131074                     {path}");
        assert_eq!(of_weir(&line), if is_weirs { vec![&*line] } else { vec![] }, "{path}");
    }

    #[test]
    fn weirs_mappings_are_told_by_the_names_of_their_files() {
        for name in ["segment", "maps", "code", "outpost", "records", "local"] {
            check(&format!("/memfd:weir-{name} (deleted)"), true);
        }
    }

    #[test]
    fn files_in_a_folder_called_weir_are_not_weirs() {
        check("/home/me/weir dir/weir/target/testkit/worker", false);
        check("/home/me/weir/target/debug/weir", false);
        check("/home/me/weir-code/x (deleted)", false);
        check("/home/me/a b/memfd:weir-code (deleted)", false);
        check("/home/me/a /memfd:weir-code (deleted)", false);
        check("/memfd:mine /memfd:weir-code (deleted)", false);
        check("/memfd:pulseaudio (deleted)", false);
        check("[heap]", false);
    }

    #[test]
    fn memory_of_no_file_has_no_path() {
        let lines = "7f52a4c00000-7f52a4c21000 rw-p 00000000 00:00 0 \n7f52a4c21000-7f52a4c22000 rw-p 00000000 00:00 0";
        assert_eq!(of_weir(lines), Vec::<&str>::new());
    }

    #[test]
    fn this_process_has_nothing_of_weirs() {
        assert_eq!(of_weir_in(std::process::id()), Vec::<String>::new());
    }
}
