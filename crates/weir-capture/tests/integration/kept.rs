//! What is kept of what a source yields, and what is counted.

use testkit::pcapng::{self, Rules};
use weir_capture::{Capture, Error, Filtered, Filters, Save, Sink, Source, Step};
use weir_pcapng::{Interface, Section};

use crate::scripted::{Every, Scripted, Shared, moment, read};

/// A capture into memory.
fn capture(
    source: impl Source + 'static,
    filter: Option<Every>,
    most: Option<u64>,
) -> (Capture<'static>, Shared) {
    let output = Shared::new(usize::MAX);
    let save = Save::to_pipe(Box::new(output.clone()), Section::default(), moment(1)).unwrap();
    let filters = filter.map(|filter| Box::new(filter) as Box<dyn Filters>);
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(save)];
    (Capture::new(Box::new(source), filters, sinks, 50, most, moment(1)), output)
}

/// Steps until it has ended.
fn ended(capture: &mut Capture<'_>) {
    while capture.step(moment(2)).unwrap() != Step::Ended {}
    capture.finish(moment(3)).unwrap();
}

#[test]
fn all_that_a_source_says_of_packets_is_written() {
    let (mut capture, output) = capture(Scripted::new(6), None, None);
    assert_eq!(capture.step(moment(2)).unwrap(), Step::Idle, "four at once");
    ended(&mut capture);
    let file = output.bytes.borrow();
    pcapng::assert_holds(&file, Rules { is_monotone: true });
    let (packets, statistics) = read(&file);
    let expected = (0..6).map(|number| {
        let (interface, queue) = (number % 2, number % 3);
        format!(
            "{number} at {} on {interface}: 50 of 1500, lost {number}, id {number}, queue {queue}, Toeplitz",
            1000 + number
        )
    });
    assert_eq!(packets, expected.collect::<Vec<_>>());
    assert_eq!(statistics.len(), 2);
    let of = &statistics[1];
    assert_eq!((of.start, of.end), (Some(1_000_000_000), Some(3_000_000_000)));
    assert_eq!((of.received, of.dropped, of.accepted), (Some(6), Some(1), Some(6)));
    assert_eq!((of.os_dropped, of.delivered), (Some(2), Some(3)));
    let tallies = capture.tallies().unwrap();
    assert_eq!((tallies[0].name.as_str(), tallies[0].kept, tallies[0].rejected), ("port0", 3, None));
    assert_eq!((tallies[0].kept_bytes, tallies[0].dropped()), (150, 3));
}

#[test]
fn what_was_lost_before_packets_that_are_rejected_was_lost_before_the_next() {
    let (mut capture, output) = capture(Scripted::new(12), Some(Every::of(5, 20)), None);
    ended(&mut capture);
    let (packets, statistics) = read(&output.bytes.borrow());
    let lost: Vec<&str> = packets.iter().map(|line| line.split(", id").next().unwrap()).collect();
    assert_eq!(
        lost,
        [
            "0 at 1000 on 0: 20 of 1500, lost 0",
            "5 at 1005 on 1: 20 of 1500, lost 9",
            "10 at 1010 on 0: 20 of 1500, lost 30"
        ]
    );
    let tallies = capture.tallies().unwrap();
    assert_eq!(tallies.iter().map(|tally| tally.rejected).collect::<Vec<_>>(), [Some(4), Some(5)]);
    assert_eq!(statistics[0].accepted, Some(2));
}

#[test]
fn a_filter_is_not_asked_about_what_the_source_has_filtered() {
    let source = Scripted { filtered: Filtered::Yes, ..Scripted::new(12) };
    let (mut capture, output) = capture(source, Some(Every::of(5, 20)), None);
    ended(&mut capture);
    assert_eq!(read(&output.bytes.borrow()).0.len(), 12);
}

#[test]
fn interfaces_of_one_link_type_share_a_filter() {
    let every = Every::of(5, 20);
    let asked = every.asked.clone();
    let (mut capture, _output) = capture(Scripted::new(12), Some(every), None);
    ended(&mut capture);
    assert_eq!((capture.tallies().unwrap().len(), asked.get()), (2, 1));
}

#[test]
fn it_ends_after_as_many_packets_as_were_asked_for() {
    let (mut capture, output) = capture(Scripted::new(100), Some(Every::of(2, 20)), Some(5));
    ended(&mut capture);
    assert_eq!(capture.step(moment(4)).unwrap(), Step::Ended);
    assert_eq!(read(&output.bytes.borrow()).0.len(), 5);
}

#[test]
fn it_ends_where_it_is_stopped() {
    let (mut capture, output) = capture(Scripted::new(100), None, None);
    capture.step(moment(2)).unwrap();
    capture.stop().unwrap();
    ended(&mut capture);
    assert_eq!(read(&output.bytes.borrow()).0.len(), 4);
}

#[test]
fn an_output_that_fails_says_how_much_is_whole_and_the_others_are_ended() {
    let (small, large) = (Shared::new(500), Shared::new(usize::MAX));
    let sinks = [&small, &large].map(|output| {
        let save = Save::to_pipe(Box::new(output.clone()), Section::default(), moment(1));
        Box::new(save.unwrap()) as Box<dyn Sink>
    });
    let mut capture = Capture::new(Box::new(Scripted::new(8)), None, sinks.into(), 50, None, moment(1));
    capture.step(moment(2)).unwrap();
    let error = capture.flush().unwrap_err();
    let Error::Write { whole, path: None, .. } = error else { panic!("{error:?}") };
    pcapng::assert_holds(&small.bytes.borrow()[..whole as usize], Rules::default());
    assert!(capture.finish(moment(3)).is_err());
    pcapng::assert_holds(&large.bytes.borrow(), Rules::default());
    assert_eq!(read(&large.bytes.borrow()).1.len(), 2, "with statistics");
}

#[test]
fn a_link_type_without_the_filter_is_an_error() {
    struct Other;
    impl Source for Other {
        fn drain(&mut self, take: &mut dyn weir_capture::Take) -> Result<weir_capture::Drained, Error> {
            take.interface(&Interface::new(127, 0), Filtered::No)?;
            Ok(weir_capture::Drained::Ended)
        }

        fn descriptors(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
            Vec::new()
        }

        fn counts(&mut self) -> Result<Vec<weir_capture::Counts>, Error> {
            Ok(Vec::new())
        }

        fn stop(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }
    let (mut capture, _output) = capture(Other, Some(Every::of(1, 1)), None);
    let error = capture.step(moment(2)).unwrap_err();
    assert!(
        matches!(error, Error::Filter { link_type: 127, .. }) && error.to_string() == "of Ethernet alone"
    );
}
