//! Every bound of this crate, named once.

use std::time::Duration;

pub use weir_plan::limits::{
    EXITS_MAX, FUNCTION_BYTES_MAX, HOLE_REACH, JUMP_BYTES, LOWEST_ADDRESS, SHORT_JUMP_BYTES,
    TABLE_ENTRIES_MAX, TAIL_TARGETS_MAX, WALK_JOINS_MAX, WINDOW_BYTES_MAX, WRITES_PER_SITE_MAX,
};
pub use weir_trampoline::limits::{
    FRAMES_PER_SITE_MAX, HEAP_ROOM, HOOK_BYTES_MAX, ISLAND_REACH, ISLAND_TAIL_BYTES, ISLANDS_MAX, JUMP_REACH,
    LINE_BYTES, OUTPOSTS_MAX, PROGRAMS_PER_SITE_MAX, RECORDS, RECORDS_PER_SET, TAIL_DEPTH_MAX,
    TRAMPOLINE_BYTES_MAX,
};

/// The longest that a target may be held stopped; past it everything is rolled back.
pub const STOP_MAX: Duration = Duration::from_secs(1);

/// How long a weir waits for another that holds the process: that one may be starved, and take several stops for what it does. And how long it sleeps
/// between two tries. Of another tracer it is not known whether it lets the process go soon.
pub const TURN_MAX: Duration = Duration::from_secs(3);
pub const TRACER_MAX: Duration = Duration::from_millis(100);
pub const TURN_PAUSE: Duration = Duration::from_millis(2);

/// Weirs whose jumps lie one over the other at one place, those included that have gone and could not be taken out yet.
pub const LAYERS_MAX: usize = 64;

/// Bytes of one island of another weir that are looked through: tens of thousands of trampolines.
pub const CODE_BYTES_MAX: u64 = 64 << 20;

/// Bytes of the path of a library that a process is made to load, with the zero: PATH_MAX.
pub const LOADED_PATH_BYTES_MAX: usize = 4096;

/// How long a library may take to be loaded, and what the dynamic linker and constructors may need of a thread's stack.
pub const LOADING_MAX: Duration = Duration::from_secs(5);
/// See [`LOADING_MAX`].
pub const LOADING_STACK_BYTES_MIN: u64 = 64 << 10;

/// How long a permission event of fanotify(7) is pending at most. Events are handled one after the other: of 50 programs that are
/// executed at once on a busy machine, the last waits for seconds.
pub const PERMISSION_WAIT_MAX: Duration = Duration::from_secs(10);

/// Calls that wait at one time at most; others go on.
pub const PERMISSIONS_PENDING_MAX: usize = 512;

/// The same where weir itself is stopped.
pub const PERMISSION_WAIT_STOPPED_MAX: Duration = Duration::from_secs(1);

/// How long PTRACE_SEIZE of a process in execve(2) may take before the call is allowed: execve(2) may hold the lock that it waits for.
pub const SEIZE_WAIT_MAX: Duration = Duration::from_millis(5);

/// How long a seized process may take from the answer to its stop.
pub const EXEC_STOP_MAX: Duration = Duration::from_millis(100);

/// How long a weir that is itself stopped may hold a process that has not begun to run.
pub const EXEC_HOLD_MAX: Duration = Duration::from_secs(2);

/// The same of a forked child that waits at its first hit: for so long it waits for a weir that does nothing anyway (`IDLE_NS` of
/// weir-rt's `c/forked.c`).
pub const CHILD_HOLD_MAX: Duration = Duration::from_secs(5);

/// How long text is written within one stop while more is to come: with the stopping of threads and letting them go, a
/// slice stays below 5 ms also on a machine that has other things to do.
pub const SLICE_WRITING_MAX: Duration = Duration::from_millis(1);

/// How long the target runs at least between two slices.
pub const SLICE_PAUSE: Duration = Duration::from_millis(1);

/// How long threads that stand in generated code run by themselves to leave it, while the others are held; and how long
/// that may be repeated in one stop.
pub const LEAVING_ALONE: Duration = Duration::from_micros(100);
pub const LEAVING_MAX: Duration = Duration::from_millis(2);

/// Places of instructions that are known of files.
pub const FOUND_MAX: usize = 4096;

/// How often, and after how long each time, a process is looked at that another weir is to take over, and that is to be let go of at the same moment.
pub const HANDING_OVER_LOOKS: u32 = 100;
pub const HANDING_OVER_PAUSE: Duration = Duration::from_millis(10);
/// How long the other is waited for.
pub const HANDING_OVER_MAX: Duration = Duration::from_secs(3);

/// Where the process is to be another's when they go on (a forked child, or one that is taken over), each of so many times is as long as that, the
/// next ones twice as long, and so on.
pub const LEAVES_DOUBLED_EVERY: u32 = 10;
/// In so many stops at most, where it is taken over: each may be half as long as any may be.
pub const LEAVING_STOPS_MAX: u32 = 3;

/// How often it is looked whether threads have left code that nothing leads to any more, before the next change does.
pub const RETIRE_TRIES: u32 = 5;

/// How long the end of threads that were killed while held is waited for.
pub const LET_GO_MAX: Duration = Duration::from_millis(100);

/// Bytes of one mapping that are searched for the code that remote calls need: a file may be mapped that says to be
/// of any size, and no text is larger.
pub const SEARCHED_BYTES_MAX: u64 = 1 << 30;

/// Bytes of the text of a file that is searched for what signal handlers return to.
pub const RESTORER_FILE_BYTES_MAX: u64 = 4 << 20;

/// How often a place for code is chosen: a target that runs may map something there before it is stopped.
pub const PLACE_TRIES_MAX: u32 = 10;

/// How far from what is mapped the place of the second try is, if that is within reach, and the farthest of any: the kernel
/// maps what a process asks for next to what is there.
pub const APART_FIRST: u64 = 64 << 20;
pub const APART_MAX: u64 = 1 << 30;

/// Room left free below the main thread's stack, so that an outpost is not in the way of its growth.
pub const STACK_ROOM: u64 = 1 << 30;

/// Hits that are timed of a site when it is metered.
pub const TIMED_HITS: u64 = 64;

/// A site runs one of so many hits at least.
pub const ONE_IN_MAX: u32 = 1 << 30;

/// Functions that answer unwinders, in one target: one in glibc, or one for each copy of libgcc. Each is one write.
pub const HOOKS_MAX: usize = 16;

/// Functions at which a target is noticed to install a system call filter: two of each C library. Each is a site.
pub const FILTER_HOOKS_MAX: usize = 4;

/// How often a place is tried again that was busy or had no room, and when first; then after twice as long each time, for 100 s in
/// all.
pub const RETRIES: u32 = 10;
pub const RETRY_FIRST: Duration = Duration::from_millis(100);
/// And how often the target is stopped each time for a thread that is inside a patch.
pub const RETRY_STOPS_MAX: u32 = 3;

/// Files that such functions are known of at once: the C libraries of containers, and static programs.
pub const FILTER_LIBRARIES_MAX: usize = 16;

/// Hooks around calls that take memory away, at most.
pub const GUARDS_MAX: usize = 64;

/// Threads of a target that are looked at in one round for a filter: each costs the reading of a file in /proc.
pub const FILTER_THREADS_PER_LOOK: usize = 64;

/// How often a target is stopped at most to look for records that nobody will come back to.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Stack that a remote call needs below the red zone: the signal frame and the extended state (at most 11 KiB
/// with AMX).
pub const REMOTE_STACK_BYTES: u64 = 16 << 10;

/// How often it is looked for a thread with that much stack, and how long the target runs between two looks: where there is
/// none, each may be in a signal handler on a small stack of its own.
pub const REMOTE_TRIES_MAX: u32 = 20;
pub const REMOTE_PAUSE: Duration = Duration::from_millis(3);

/// How often a thread found in the middle of a window or of a trampoline is let run on, a millisecond at a time.
pub const RETRIES_MAX: u32 = 100;

/// How often threads on their way through trampolines are let run on before what waits is counted, a millisecond at a time.
pub const PENDING_TRIES: u32 = 8;

/// How often detaching tries to stop a target whose threads do not stop in time.
pub const UNDO_STOPS_MAX: u32 = 10;

/// System calls a command may make before it is ready to be probed (ld.so makes about ten for each library).
pub const LAUNCH_SYSTEM_CALLS_MAX: u32 = 100_000;

/// Goroutines whose stacks are looked at in one stop: each takes 3 to 5 µs, 16,000 took 47 to 87 ms.
pub const GOROUTINES_MAX: u64 = 16 << 10;

/// The largest stack that Go gives a goroutine (runtime.maxstacksize) by far.
pub const GOROUTINE_STACK_BYTES_MAX: u64 = 4 << 30;

/// How often a stats page is copied that was written meanwhile, which happens once a second.
pub const STATS_PAGE_READS_MAX: u32 = 16;

/// Stack memory scanned for one thread.
pub const STACK_SCAN_BYTES_MAX: usize = 64 << 20;

const _: () = assert!(WINDOW_BYTES_MAX <= 24);
const _: () = assert!(APART_MAX < ISLAND_REACH);
const _: () = assert!(REMOTE_STACK_BYTES > 11 << 10);

/// Text of a process that is searched for weir's jumps where weir is gone; a browser with all its libraries has 400 MiB.
pub const TEXT_BYTES_MAX: u64 = 4 << 30;

/// Jumps that are found there; no weir makes more than it has entries in its journal.
pub const JUMPS_MAX: usize = 1 << 20;
