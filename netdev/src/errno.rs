//! Text of system error numbers, as the C library words it.

use std::io;

use rustix::io::Errno;

/// The C library's sentence for `errno`, such as `No such device`.
///
/// Rust's own text adds ` (os error 19)`, which operators of a switch do not look for.
pub fn description(errno: Errno) -> String {
    let number = errno.raw_os_error();
    let text = io::Error::from_raw_os_error(number).to_string();
    match text.strip_suffix(&format!(" (os error {number})")) {
        Some(sentence) => sentence.to_owned(),
        None => text,
    }
}

/// The [`description`] of the system error in `error`, or its own text if there is none.
pub fn io_description(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(errno) => description(errno),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_system_error() {
        assert_eq!(io_description(&Errno::PIPE.into()), "Broken pipe");
        assert_eq!(io_description(&io::Error::other("no runtime")), "no runtime");
    }

    #[test]
    fn is_the_sentence_alone() {
        assert_eq!(description(Errno::NODEV), "No such device");
        assert_eq!(description(Errno::EXIST), "File exists");
        assert_eq!(description(Errno::AFNOSUPPORT), "Address family not supported by protocol");
        assert_eq!(description(Errno::from_raw_os_error(4000)), "Unknown error 4000");
    }
}
