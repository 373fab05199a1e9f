//! Unix sockets by path: paths of any length, and files with the access rights tools expect.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use tokio::net::{UnixListener, UnixStream};

/// Longest path that fits into `sockaddr_un` with its terminating zero byte.
const MAX_PATH: usize = 107;
const BACKLOG: i32 = 64;

/// A path short enough for `sockaddr_un`. A longer one is reached through its directory's file
/// descriptor, which must stay open while the path is used.
struct ShortPath {
    path: PathBuf,
    _directory: Option<fs::File>,
}

impl ShortPath {
    fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= MAX_PATH {
            return Ok(Self { path: path.to_owned(), _directory: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let flags = (OFlags::DIRECTORY | OFlags::PATH).bits();
        let directory =
            fs::OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(parent)?;
        let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _directory: Some(directory) })
    }
}

pub(crate) async fn connect(path: &Path) -> io::Result<UnixStream> {
    let short = ShortPath::new(path)?;
    UnixStream::connect(&short.path).await
}

/// The file of a listening socket; removed when dropped, unless another socket took its place.
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours {
            // Nobody is left to tell when this fails; a stale file is removed by the next bind.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens on `path` with mode 0770 less the umask, after removing a socket left there.
pub(crate) fn bind_listener(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    let short = ShortPath::new(path)?;
    let socket: OwnedFd = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    )?;
    // The file takes the mode that the socket has when it is bound.
    fchmod(&socket, Mode::RWXU | Mode::RWXG)?;
    bind(&socket, &SocketAddrUnix::new(&short.path)?)?;
    listen(&socket, BACKLOG)?;
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), identity: (metadata.dev(), metadata.ino()) };
    Ok((UnixListener::from_std(socket.into())?, file))
}
