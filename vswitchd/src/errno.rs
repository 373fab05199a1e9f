//! Texts of the system's errors.

use std::io;

/// What the system calls `error`, as `strerror(3)` says it: without the number that
/// [`io::Error`] adds.
pub fn text(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => text.trim_end_matches(&format!(" (os error {number})")).to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_left_out() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!(text(&error), "No such file or directory");
        assert_eq!(text(&io::Error::other("odd")), "odd");
    }
}
