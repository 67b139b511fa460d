//! weir-capture from outside, by its public interface: one program, a module for each subject.
