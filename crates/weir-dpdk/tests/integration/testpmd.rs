//! The same with DPDK itself: dpdk-testpmd, which forwards between two virtual ports.
