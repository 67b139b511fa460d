//! Options of sections, interfaces, packets and statistics, each as one line.

use crate::file::{File, ORDERS, Opt, Order};
use crate::listing::listed;

/// A number in the file's byte order, as the value of an option.
fn number(order: Order, number: u64) -> Vec<u8> {
    File::value(order, number)
}

fn word(order: Order, word: u32) -> Vec<u8> {
    File::new(order).u32(word).bytes
}

fn last(file: &File) -> String {
    listed(&file.bytes).pop().unwrap()
}

fn check_section(options: &[Opt], said: &str) {
    for order in ORDERS {
        assert_eq!(last(&File::new(order).section(options)), format!("section{said}"));
    }
}

fn check_interface(options: impl Fn(Order) -> Vec<Opt>, said: &str) {
    for order in ORDERS {
        let file = File::new(order).section(&[]).interface(1, 0, &options(order));
        assert_eq!(last(&file), format!("interface 0 link 1 snaplen 0{said}"), "{order:?}");
    }
}

fn check_packet(options: impl Fn(Order) -> Vec<Opt>, said: &str) {
    for order in ORDERS {
        let file = File::with_interface(order).enhanced(0, 0, &[1, 2, 3], &options(order));
        assert_eq!(last(&file), format!("packet 0 0 [1, 2, 3] of 3{said}"), "{order:?}");
    }
}

fn check_statistics(options: impl Fn(Order) -> Vec<Opt>, said: &str) {
    for order in ORDERS {
        let file = File::with_interface(order).statistics(0, 1, &options(order));
        assert_eq!(last(&file), format!("statistics 0 1000 {said}"), "{order:?}");
    }
}

fn text(code: u16, text: &str) -> Opt {
    (code, text.as_bytes().to_vec())
}

#[test]
fn a_section_says_what_made_it() {
    check_section(&[text(2, "x86"), text(3, "Linux"), text(4, "weir")], r#" "x86" "Linux" "weir""#);
    check_section(&[text(1, "a"), text(1, "b"), text(4, "weir")], r#" "weir" "a" "b""#);
    check_section(&[text(4, "")], r#" """#);
}

#[test]
fn of_an_option_that_should_be_there_once_the_first_counts() {
    check_section(&[text(4, "a"), text(4, "b")], r#" "a""#);
    check_interface(|_| vec![(13, vec![4]), (13, vec![8])], " fcs 4");
    check_packet(|order| vec![(6, word(order, 1)), (6, word(order, 2))], " queue 1");
}

#[test]
fn texts_end_at_a_nul_and_what_is_no_utf_8_is_replaced() {
    check_section(&[(4, b"a\0b".to_vec())], r#" "a""#);
    check_section(&[(4, b"a\xffb".to_vec())], " \"a\u{fffd}b\"");
}

#[test]
fn unknown_and_custom_options_say_nothing() {
    check_section(
        &[(77, vec![1, 2, 3]), (0x8001, vec![]), (2988, vec![0; 4]), text(4, "weir")],
        r#" "weir""#,
    );
    check_packet(|_| vec![(99, vec![1]), (19_373, vec![0; 9])], "");
}

#[test]
fn an_interface_says_what_it_is() {
    check_interface(|_| vec![text(2, "eth0"), text(3, "a card")], r#" "eth0" is "a card""#);
    check_interface(
        |_| vec![text(12, "Linux"), text(15, "0000:00:01.0")],
        r#" os "Linux" hw "0000:00:01.0""#,
    );
    check_interface(|_| vec![text(18, "Europe/Berlin"), text(1, "c")], r#" tz "Europe/Berlin" "c""#);
    check_interface(|_| vec![(4, vec![10, 0, 0, 1, 255, 0, 0, 0])], " 10.0.0.1/255.0.0.0");
    check_interface(|_| vec![(5, [&[0; 15][..], &[1, 64]].concat())], " ::1/64");
    check_interface(|_| vec![(6, vec![1, 2, 3, 4, 5, 6])], " mac [1, 2, 3, 4, 5, 6]");
    check_interface(|_| vec![(7, vec![1, 2, 3, 4, 5, 6, 7, 8])], " eui [1, 2, 3, 4, 5, 6, 7, 8]");
}

#[test]
fn an_interface_says_how_fast_it_is() {
    check_interface(|order| vec![(8, number(order, 100))], " Both(100)");
    let each = |order| vec![(16, number(order, 1)), (17, number(order, 2))];
    check_interface(each, " Each { transmit: Some(1), receive: Some(2) }");
    check_interface(|order| vec![(17, number(order, 2))], " Each { transmit: None, receive: Some(2) }");
}

#[test]
fn an_interface_says_what_it_was_filtered_by() {
    check_interface(|_| vec![text(11, "\0tcp port 80")], r#" Text("tcp port 80")"#);
    check_interface(|_| vec![(11, vec![1, 6, 0, 0, 0, 0, 0, 0, 0])], " Bpf([6, 0, 0, 0, 0, 0, 0, 0])");
    check_interface(|_| vec![(11, vec![7, 8])], " Other(7, [8])");
}

#[test]
fn a_packet_says_what_was_known_of_it() {
    check_packet(|order| vec![(2, word(order, 0x202))], " flags 0x202");
    check_packet(|order| vec![(4, number(order, 5))], " lost 5");
    check_packet(|order| vec![(5, number(order, 1 << 40))], " id 1099511627776");
    check_packet(|order| vec![(6, word(order, 3))], " queue 3");
    check_packet(|order| vec![(8, File::new(order).u32(7).u32(8).bytes)], " by 7/8");
    check_packet(|_| vec![text(1, "a"), text(1, "b")], r#" "a" "b""#);
}

#[test]
fn a_packet_has_any_number_of_hashes_and_verdicts() {
    check_packet(
        |_| vec![(3, vec![3, 1]), (3, vec![5]), (3, vec![9, 2])],
        " Md5 [1] Toeplitz [] Other(9) [2]",
    );
    check_packet(|order| vec![(7, [&[1][..], &number(order, 2)].concat())], " Tc(2)");
    check_packet(|order| vec![(7, [&[2][..], &number(order, 2)].concat())], " Xdp(2)");
    check_packet(|_| vec![(7, vec![0, 1, 2]), (7, vec![2, 1])], " Hardware([1, 2]) Other(2, [1])");
}

#[test]
fn statistics_say_what_was_counted() {
    check_statistics(|_| vec![], "- - - - - - -");
    check_statistics(
        |order| {
            let times = [2, 3].map(|code| (code, File::new(order).ticks(code.into()).bytes));
            let counts = [4, 5, 6, 7, 8].map(|code| (code, number(order, code.into())));
            times.into_iter().chain(counts).chain([text(1, "c")]).collect()
        },
        r#"2000 3000 4 5 6 7 8 "c""#,
    );
}

#[test]
fn an_option_of_a_wrong_length_is_refused_where_it_stands() {
    for order in ORDERS {
        let file = |options: &[Opt]| File::with_interface(order).enhanced(0, 0, &[], options);
        let at = File::with_interface(order).bytes.len() + 28;
        for (code, length) in [(2, 3), (2, 8), (3, 0), (4, 4), (5, 0), (6, 5), (7, 0), (8, 4), (2988, 3)] {
            let faulty = file(&[text(1, "fine"), (code, vec![0; length])]);
            assert_eq!(last(&faulty), format!("Malformed at {}", at + 8), "{code} {length}");
        }
        // Those of enhanced packets mean the same in obsolete ones.
        for (code, length) in [(2, 0), (3, 0), (4, 0), (6, 2), (8, 0)] {
            let faulty = File::with_interface(order).obsolete(0, 0, &[], &[(code, vec![0; length])]);
            assert_eq!(last(&faulty), format!("Malformed at {at}"), "{code} {length}");
        }
        let end = File::with_interface(order).bytes.len();
        for (code, length) in [(4, 7), (5, 16), (6, 5), (7, 6), (8, 4), (9, 0), (11, 0), (13, 2), (14, 4)] {
            let faulty = File::with_interface(order).interface(1, 0, &[(code, vec![0; length])]);
            assert_eq!(last(&faulty), format!("Malformed at {}", end + 16), "{code} {length}");
        }
        for (code, length) in [(2, 4), (3, 0), (4, 7), (8, 9)] {
            let faulty = File::with_interface(order).statistics(0, 0, &[(code, vec![0; length])]);
            assert_eq!(last(&faulty), format!("Malformed at {}", end + 20), "{code} {length}");
        }
    }
}
