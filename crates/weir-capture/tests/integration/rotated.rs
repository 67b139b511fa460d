//! Files of a rotation, by the clock that the caller says and by their length.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::paths;
use testkit::pcapng::{self, Rules};
use weir_capture::{Capture, Rotation, Save, Step};
use weir_pcapng::Section;

use crate::scripted::{Scripted, moment, read};

/// Steps, one each at the second that `clock` says, then the end: names of the files that are left, and packets in each.
fn check(name: &str, rotation: Rotation, packets: u32, clock: &[u64], expected: &[(&str, usize)]) {
    let folder = paths::fresh("rotated", name);
    std::fs::create_dir_all(&folder).unwrap();
    let save = Save::to_file(&folder.join("t.pcapng"), rotation, Section::default(), moment(0)).unwrap();
    let source = Box::new(Scripted::new(packets));
    let mut capture = Capture::new(source, None, vec![Box::new(save)], 100, None, moment(0));
    for at in clock {
        capture.step(moment(*at)).unwrap();
    }
    while capture.step(moment(*clock.last().unwrap())).unwrap() != Step::Ended {}
    capture.finish(moment(1000)).unwrap();
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    let found: Vec<(String, usize)> = found.iter().map(|path| (file_name(path), packets_of(path))).collect();
    let expected: Vec<(String, usize)> =
        expected.iter().map(|(name, packets)| ((*name).to_owned(), *packets)).collect();
    assert_eq!(found, expected, "{name}");
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Each file is whole, and has statistics of both interfaces.
fn packets_of(path: &Path) -> usize {
    let file = std::fs::read(path).unwrap();
    pcapng::assert_holds(&file, Rules { is_monotone: true });
    let (packets, statistics) = read(&file);
    assert_eq!(statistics.len(), 2);
    packets.len()
}

#[test]
fn files_are_begun_when_their_time_is_over() {
    let rotation = Rotation { time: Some(Duration::from_secs(10)), ..Rotation::default() };
    let files = [("t-00001.pcapng", 8), ("t-00002.pcapng", 4), ("t-00003.pcapng", 8)];
    check("time", rotation, 20, &[1, 9, 10, 25, 26], &files);
}

#[test]
fn files_are_begun_when_they_are_long_enough() {
    let rotation = Rotation { bytes: Some(200), files: None, time: None };
    let names: Vec<String> = (1..=5).map(|number| format!("t-{number:05}.pcapng")).collect();
    // After the last packet it is not known yet that there is no other.
    let files: Vec<(&str, usize)> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), usize::from(at < 4))).collect();
    check("size", rotation, 4, &[1], &files);
}

#[test]
fn the_newest_files_are_kept() {
    let rotation = Rotation { time: Some(Duration::from_secs(1)), files: Some(2), ..Rotation::default() };
    let files = [("t-00004.pcapng", 4), ("t-00005.pcapng", 4)];
    check("newest", rotation, 20, &[0, 1, 2, 3, 4], &files);
}

#[test]
fn without_rotation_there_is_one_file_of_that_name() {
    check("one", Rotation::default(), 6, &[1, 100_000], &[("t.pcapng", 6)]);
}
