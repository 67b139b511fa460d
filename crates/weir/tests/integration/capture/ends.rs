//! How captures end: whatever happens, what was captured before can be read, and a message says what it was.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use testkit::pcapng::{self, Rules};
use testkit::skip::skip;
use testkit::wait;

use super::{
    LIMIT, OURS, Running, WEIR, contents, contents_of, count, folder, frame, namespace, number, said,
    whole_blocks,
};

/// A file that passes the checker, with the numbers of its packets from 0 on without a gap.
#[track_caller]
fn is_whole(path: &Path) -> usize {
    pcapng::assert_holds(&std::fs::read(path).unwrap(), Rules { is_monotone: true });
    let packets = contents(path).packets;
    for (at, packet) in packets.iter().enumerate() {
        assert_eq!(number(&packet.bytes), at as u32);
    }
    packets.len()
}

#[test]
fn a_signal_ends_it_with_all_that_the_kernel_had_accepted() {
    let Some(namespace) = namespace() else { return };
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let path = folder("signal").join("file.pcapng");
        let running = Running::start(&namespace, &["-i", "v1", "-f", OURS], &path);
        let sender = namespace.sender("v0").unwrap();
        (0..100).for_each(|number| sender.send(&frame(number, 60, None)).unwrap());
        running.signal(signal);
        let output = running.output();
        said(&output, 0, &["v1: 100 captured"]);
        assert_eq!(is_whole(&path), 100);
        assert_eq!(contents(&path).statistics[0].delivered, Some(100));
    }
}

#[test]
fn a_signal_ends_it_while_packets_keep_coming() {
    let Some(namespace) = namespace() else { return };
    let path = folder("load").join("file.pcapng");
    let running =
        Running::start(&namespace, &["-i", "v1", "--mode", "compat", "-f", OURS, "-s", "60"], &path);
    let sender = namespace.sender("v0").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                sender.send(&frame(1, 60, None)).unwrap();
            }
        });
        // Also where the rest panics.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(&is_over);
        let has_begun = wait::until(LIMIT, || path.metadata().is_ok_and(|of| of.len() > 1 << 20));
        running.signal(Signal::SIGINT);
        let output = running.output();
        assert!(has_begun);
        said(&output, 0, &["captured"]);
    });
    let statistics = &contents(&path).statistics[0];
    assert_eq!(statistics.accepted, Some(statistics.delivered.unwrap() + statistics.os_dropped.unwrap()));
}

#[test]
fn a_signal_ends_the_wait_for_standard_input() {
    let path = folder("input").join("file.pcapng");
    let packets: Vec<_> =
        (0..10).map(|number| testkit::pcap_file::Packet::whole(frame(number, 60, None))).collect();
    let file = testkit::pcap_file::pcapng(1, &packets);
    // Whole blocks, and a part of one.
    for cut in [0, 10] {
        let mut command = Command::new(WEIR);
        command.args(["capture", "-r", "-", "-w"]).arg(&path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running { child: command.spawn().unwrap() };
        let mut input = running.child.stdin.take().unwrap();
        input.write_all(&file[..file.len() - cut]).unwrap();
        let expected = if cut == 0 { 10 } else { 9 };
        assert!(wait::until(LIMIT, || count(&path) == expected), "they are not written");
        running.signal(Signal::SIGTERM);
        said(&running.output(), 0, &[&format!("{expected} captured")]);
        assert_eq!(is_whole(&path), expected);
        drop(input);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn one_that_is_killed_has_lost_no_packet_of_more_than_a_second_before() {
    let Some(namespace) = namespace() else { return };
    let path = folder("killed").join("file.pcapng");
    let running = Running::start(&namespace, &["-i", "v1", "-f", OURS], &path);
    let sender = namespace.sender("v0").unwrap();
    (0..100).for_each(|number| sender.send(&frame(number, 60, None)).unwrap());
    // No signal and no further packet has it write them.
    assert!(wait::until(LIMIT, || count(&path) == 100), "they are not written");
    running.signal(Signal::SIGKILL);
    assert_eq!(running.output().status.code(), None);
    assert_eq!(is_whole(&path), 100);
}

#[test]
fn one_that_is_killed_while_packets_keep_coming_leaves_whole_blocks() {
    let Some(namespace) = namespace() else { return };
    let path = folder("killed-busy").join("file.pcapng");
    let running = Running::start(&namespace, &["-i", "v1", "-f", OURS], &path);
    let sender = namespace.sender("v0").unwrap();
    let mut next = 0;
    let has_begun = wait::until(LIMIT, || {
        (0..500).for_each(|at| sender.send(&frame(next + at, 700, None)).unwrap());
        next += 500;
        path.metadata().is_ok_and(|of| of.len() > 2 << 20)
    });
    running.signal(Signal::SIGKILL);
    running.output();
    assert!(has_begun);
    let file = std::fs::read(&path).unwrap();
    let whole = whole_blocks(&file);
    assert!(file.len() - whole.len() < 1000, "less than a block is after them");
    pcapng::assert_holds(whole, Rules { is_monotone: true });
    // What the kernel drops on a busy machine is said.
    let mut expected = 0;
    for packet in contents_of(whole).packets {
        assert_eq!(u64::from(number(&packet.bytes)), expected + packet.drops);
        expected = u64::from(number(&packet.bytes)) + 1;
    }
}

#[test]
fn an_interface_that_goes_away_ends_it() {
    for how in [&["link", "del", "v1"][..], &["link", "set", "v1", "down"]] {
        let Some(namespace) = namespace() else { return };
        let path = folder("gone").join("file.pcapng");
        let running = Running::start(&namespace, &["-i", "v1", "-f", OURS], &path);
        let sender = namespace.sender("v0").unwrap();
        (0..10).for_each(|number| sender.send(&frame(number, 60, None)).unwrap());
        namespace.ip(how).unwrap();
        said(&running.output(), 3, &["the interface v1 went down or is gone", "v1: 10 captured"]);
        assert_eq!(is_whole(&path), 10);
    }
}

#[test]
fn an_interface_that_is_down_or_not_there_is_refused() {
    let Some(namespace) = namespace() else { return };
    namespace.ip(&["link", "set", "v1", "down"]).unwrap();
    let run =
        |interface| namespace.command(WEIR).args(["capture", "--stats", "-i", interface]).output().unwrap();
    said(&run("v1"), 3, &["the interface v1 went down or is gone"]);
    said(&run("nothing"), 1, &["there is no interface `nothing`", "ip link"]);
    said(&run("a-name-that-is-too-long"), 1, &["there is no interface"]);
}

#[test]
fn a_pipe_whose_reader_goes_ends_it() {
    let Some(namespace) = namespace() else { return };
    let mut command = namespace.command(WEIR);
    command.args(["capture", "-i", "v1", "-f", OURS, "-w", "-"]);
    let mut running = Running::of(command);
    let mut reader = weir_pcapng::Reader::new(running.child.stdout.take().unwrap()).unwrap();
    // The interface: it captures already.
    while reader.interfaces().is_empty() {
        reader.next().unwrap();
    }
    let sender = namespace.sender("v0").unwrap();
    sender.send(&frame(7, 60, None)).unwrap();
    let is_packet =
        |event| matches!(event, Some(weir_pcapng::Event::Packet(packet)) if number(packet.bytes) == 7);
    assert!(is_packet(reader.next().unwrap()), "it comes through the pipe at once");
    // No packet comes any more that could not be written.
    drop(reader);
    said(&running.output(), 0, &["v1: 1 captured"]);
}

#[test]
fn a_full_disk_ends_it_with_a_file_that_can_be_read() {
    let place = folder("disk");
    let mount = ["-t", "tmpfs", "-o", "size=300k", "none", place.to_str().unwrap()];
    if !Command::new("mount").args(mount).status().is_ok_and(|status| status.success()) {
        return skip("capture-full-disk", "mounting is for root");
    }
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.0).status();
        }
    }
    let _mounted = Mounted(&place);
    let source = folder("disk-source").join("source.pcap");
    let packets: Vec<_> =
        (0..600).map(|number| testkit::pcap_file::Packet::whole(frame(number, 1000, None))).collect();
    testkit::pcap_file::write(&source, 1, &packets).unwrap();
    let path = place.join("file.pcapng");
    let output = super::captured(&["-r", super::text(&source), "-w", super::text(&path)]);
    said(&output, 3, &["file.pcapng", "No space left on device", "whole, and can be read"]);
    let packets = is_whole(&path);
    assert!((200..300).contains(&packets), "{packets} packets in 300 KiB");
}

#[test]
fn a_file_that_may_not_grow_further_is_like_a_full_disk() {
    let folder = folder("limit");
    let (source, path) = (folder.join("source.pcap"), folder.join("file.pcapng"));
    let packets: Vec<_> =
        (0..600).map(|number| testkit::pcap_file::Packet::whole(frame(number, 1000, None))).collect();
    testkit::pcap_file::write(&source, 1, &packets).unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 200; exec \"$@\"", "sh", WEIR, "capture", "-r"])
        .arg(&source)
        .arg("-w")
        .arg(&path);
    let output = command.stdin(Stdio::null()).process_group(0).output().unwrap();
    said(&output, 3, &["File too large", "whole, and can be read"]);
    assert!(is_whole(&path) > 50);
}
