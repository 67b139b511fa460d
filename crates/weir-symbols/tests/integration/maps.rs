//! Maps files: every form of line, and where addresses stand in a real process.

use std::path::Path;

use testkit::target;
use weir_symbols::maps::{self, Mapping};
use weir_symbols::{Binary, FileIdentity, FileOffset, LinkAddr, VirtAddr};

fn line(text: &str) -> Mapping {
    let mut mappings = maps::parse(text).unwrap();
    assert_eq!(mappings.len(), 1);
    mappings.remove(0)
}

#[test]
fn every_field_of_a_line_is_read() {
    let text =
        "7f0d8c000000-7f0d8c021000 r-xs 00fff000 fe:1a 1048602                    /usr/lib/a b (x).so\n";
    assert_eq!(
        line(text),
        Mapping {
            start: VirtAddr(0x7f0d8c000000),
            end: VirtAddr(0x7f0d8c021000),
            read: true,
            write: false,
            execute: true,
            shared: true,
            offset: FileOffset(0xfff000),
            device: (0xfe, 0x1a),
            inode: 1048602,
            path: "/usr/lib/a b (x).so".into(),
            deleted: false,
        }
    );
}

#[test]
fn paths_keep_their_odd_forms() {
    let check = |path: &str, expected: &str, deleted| {
        let mapping = line(&format!("1000-2000 rw-p 00000000 00:00 5   {path}"));
        assert_eq!((mapping.path.as_str(), mapping.deleted), (expected, deleted), "{path}");
    };
    check("", "", false);
    check("[heap]", "[heap]", false);
    check("[anon:x y]", "[anon:x y]", false);
    check("/memfd:weir (deleted)", "/memfd:weir", true);
    check("/tmp/a (deleted) (deleted)", "/tmp/a (deleted)", true);
    check("/tmp/new\\012line", "/tmp/new\nline", false);
    check("/tmp/ü", "/tmp/ü", false);
    check("/dev/zero (deleted)", "/dev/zero", true);
}

#[test]
fn a_line_without_path_or_blanks_after_the_inode_is_read() {
    let mapping = line("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0");
    assert_eq!((mapping.path.as_str(), mapping.inode, mapping.read, mapping.execute), ("", 0, false, true));
}

#[test]
fn a_broken_line_is_an_error_with_its_number() {
    let good = "1000-2000 r--p 00000000 00:00 0\n";
    for (bad, expected) in [
        ("", "no address range"),
        ("hello", "no address range"),
        ("1000 r--p 0 00:00 0", "no address range"),
        ("x-2000 r--p 0 00:00 0", "bad start address"),
        ("1000-10000000000000000 r--p 0 00:00 0", "bad end address"),
        ("2000-1000 r--p 0 00:00 0", "ends before it begins"),
        ("1000-2000 r--", "no permissions"),
        ("1000-2000 rwxq 0 00:00 0", "no permissions"),
        ("1000-2000 wr-p 0 00:00 0", "no permissions"),
        ("1000-2000 r--p z 00:00 0", "bad offset"),
        ("1000-2000 r--p 0 0000 0", "no device"),
        ("1000-2000 r--p 0 zz:00 0", "no device"),
        ("1000-2000 r--p 0 00:00 x", "bad inode"),
        ("1000-2000 r--p 0 00:00", "bad inode"),
    ] {
        let message = maps::parse(&format!("{good}{bad}\n{good}")).unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains("line 2"), "{bad}: {message}");
    }
}

#[test]
fn an_empty_file_has_no_mappings() {
    assert_eq!(maps::parse("").unwrap(), []);
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    // Above the largest possible pid_max, 2^22.
    assert_eq!(maps::read(1 << 30).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

/// In this test program: `object` of a library that it has loaded, and its own code.
#[test]
fn addresses_of_this_process_are_where_its_loader_put_them() {
    let maps = maps::read(std::process::id()).unwrap();
    let own = Binary::open(&std::env::current_exe().unwrap()).unwrap();
    let file = own.identity().unwrap();
    let bias = maps::load_bias(&maps, file, &own).unwrap();
    let here = addresses_of_this_process_are_where_its_loader_put_them as fn() as usize as u64;
    let link = LinkAddr(here.wrapping_sub(bias));
    assert!(own.function_at(link).unwrap().name.contains("addresses_of_this_process"), "{link}");
    assert_eq!(maps::to_virtual(&maps, file, &own, link), Some(VirtAddr(here)));
    assert_eq!(maps::to_link(&maps, file, &own, VirtAddr(here)), Some(link));
    static OBJECT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0x1122_3344_5566_7788);
    let object = &raw const OBJECT as u64;
    let link = LinkAddr(object.wrapping_sub(bias));
    assert_eq!(own.bytes(link, 8).unwrap(), 0x1122_3344_5566_7788_u64.to_le_bytes());
    assert_eq!(maps::to_virtual(&maps, file, &own, link), Some(VirtAddr(object)));
    assert_eq!(maps::to_link(&maps, file, &own, VirtAddr(object)), Some(link));
    OBJECT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

#[test]
fn a_program_that_is_not_position_independent_stands_at_its_link_addresses() {
    let text =
        "#include <unistd.h>\nint main(void) { write(1, \"x\\n\", 2); alarm(600); pause(); return 0; }";
    for flags in [["-no-pie", "-fno-pie"], ["-static", "-fno-pie"]] {
        let program = target::build("fixed", target::Source::Text(text), &flags);
        let mut daemon = testkit::Daemon::spawn(std::process::Command::new(&program)).unwrap();
        daemon.line(std::time::Duration::from_secs(120)).unwrap();
        let binary = Binary::open(&program).unwrap();
        let main = binary.find("main").unwrap()[0].address;
        let maps = maps::read(daemon.pid()).unwrap();
        let file = binary.identity().unwrap();
        assert_eq!(maps::load_bias(&maps, file, &binary), Some(0));
        assert_eq!(maps::to_virtual(&maps, file, &binary, main), Some(VirtAddr(main.0)));
    }
}

#[test]
fn a_file_mapped_twice_has_two_places_and_another_file_none() {
    let binary = Binary::open(Path::new("/lib/x86_64-linux-gnu/libc.so.6")).unwrap();
    let text = binary.segments().iter().find(|s| s.executable).unwrap();
    let (skip, size) = (text.offset.0, text.file_bytes.next_multiple_of(4096));
    let at = |start: u64| format!("{start:x}-{:x} r-xp {skip:08x} 08:01 42 /lib/libc.so.6\n", start + size);
    let maps = maps::parse(&(at(0x10000000) + &at(0x70000000))).unwrap();
    let file = FileIdentity { device: (8, 1), inode: 42 };
    let link = LinkAddr(text.address.0 + 0x123);
    let places = maps::all_virtual(&maps, file, &binary, link);
    assert_eq!(places, [VirtAddr(0x10000123), VirtAddr(0x70000123)]);
    assert_eq!(maps::to_virtual(&maps, file, &binary, link), Some(places[0]));
    for other in [FileIdentity { device: (8, 2), ..file }, FileIdentity { inode: 43, ..file }] {
        assert_eq!(maps::to_virtual(&maps, other, &binary, link), None);
    }
}

#[test]
fn a_mapping_that_was_split_has_one_bias() {
    let binary = Binary::open(Path::new("/lib/x86_64-linux-gnu/libc.so.6")).unwrap();
    let text = binary.segments().iter().find(|s| s.executable).unwrap();
    let offset = text.offset.0;
    let maps = maps::parse(&format!(
        "10000000-10001000 r-xp {offset:x} 08:01 42 /x\n10001000-10002000 rwxp {:x} 08:01 42 /x\n\
         10002000-10100000 r-xp {:x} 08:01 42 /x\n",
        offset + 0x1000,
        offset + 0x2000
    ))
    .unwrap();
    let file = FileIdentity { device: (8, 1), inode: 42 };
    assert_eq!(maps::load_biases(&maps, file, &binary), [0x10000000 - text.address.0]);
    let link = LinkAddr(text.address.0 + 0x1004);
    assert_eq!(maps::to_virtual(&maps, file, &binary, link), Some(VirtAddr(0x10001004)));
}

#[test]
fn a_file_is_known_by_its_path_where_its_device_differs() {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let binary = Binary::open(path).unwrap();
    let own = binary.identity().unwrap();
    let (major, minor) = own.device;
    let check = |lines: &[(u32, u64, &str)], expected: Option<(u32, u64)>| {
        let text: String = lines
            .iter()
            .map(|(minor, inode, path)| {
                format!("1000-2000 r-xp 00000000 {major:x}:{minor:x} {inode} {path}\n")
            })
            .collect();
        let found = maps::identity_of(&maps::parse(&text).unwrap(), &binary, path);
        assert_eq!(found.map(|f| (f.device.1, f.inode)), expected, "{text}");
    };
    let name = path.to_str().unwrap();
    let deleted = format!("{name} (deleted)");
    check(&[(minor, own.inode, name)], Some((minor, own.inode)));
    check(&[(minor, own.inode, "/another/name")], Some((minor, own.inode)));
    check(&[(minor ^ 1, 7, name), (minor, own.inode, name)], Some((minor, own.inode)));
    check(&[(minor ^ 1, 7, name), (minor ^ 1, own.inode, name)], Some((minor ^ 1, own.inode)));
    check(&[(minor ^ 1, 7, name)], Some((minor ^ 1, 7)));
    check(&[(minor ^ 1, own.inode, "/another/name")], None);
    check(&[(minor ^ 1, own.inode, &deleted)], None);
    check(&[(0, 0, name)], None);
}
