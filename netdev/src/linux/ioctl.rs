//! The ioctls of tap devices and of ethtool, which no library wraps.
//!
//! The rules: every structure is initialised in full, has the layout and at least the length that
//! the kernel reads and writes for its request, and outlives the call.
#![expect(unsafe_code, reason = "system calls that no library wraps")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Ioctl, IoctlOutput, Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketType, socket};

const TUNSETIFF: Opcode = libc::TUNSETIFF as Opcode;
const TUNSETPERSIST: Opcode = libc::TUNSETPERSIST as Opcode;
const TUNSETVNETHDRSZ: Opcode = libc::TUNSETVNETHDRSZ as Opcode;
const TUNSETOFFLOAD: Opcode = libc::TUNSETOFFLOAD as Opcode;
const TUNGETIFF: Opcode = libc::TUNGETIFF as Opcode;
const TUNGETDEVNETNS: Opcode = libc::TUNGETDEVNETNS as Opcode;
const SIOCETHTOOL: Opcode = libc::SIOCETHTOOL as Opcode;

/// Length of `struct ethtool_drvinfo` (linux/ethtool.h).
pub(super) const DRIVER_INFO_LENGTH: usize = 196;
/// Length of `struct ethtool_cmd` (linux/ethtool.h).
pub(super) const SETTINGS_LENGTH: usize = 44;
/// Length of `struct ethtool_value` (linux/ethtool.h).
pub(super) const VALUE_LENGTH: usize = 8;
const ETHTOOL_GFLAGS: u32 = 0x25;
/// Length of `struct ethtool_channels` (linux/ethtool.h).
pub(super) const CHANNELS_LENGTH: usize = 36;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GSET: u32 = 0x1;
const ETHTOOL_GDRVINFO: u32 = 0x3;

/// `struct ifreq` whose union holds flags.
#[repr(C)]
struct FlagsRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    rest: [u8; 22],
}

/// `struct ifreq` whose union holds a pointer.
#[repr(C)]
struct PointerRequest {
    name: [u8; libc::IFNAMSIZ],
    pointer: *mut c_void,
    rest: [u8; 16],
}

/// `name` as the kernel takes it, with a NUL at the end.
fn device_name(name: &str) -> Result<[u8; libc::IFNAMSIZ], Errno> {
    let mut bytes = [0; libc::IFNAMSIZ];
    if name.len() >= bytes.len() {
        return Err(Errno::NAMETOOLONG);
    }
    for (byte, value) in bytes.iter_mut().zip(name.bytes()) {
        *byte = value;
    }
    Ok(bytes)
}

/// Makes `tun` a queue of tap device `name`, which is created unless it exists, for frames without
/// packet information and with virtio network headers. The device goes when its last queue is
/// closed, unless it is persistent.
pub(super) fn attach_tap(
    tun: impl AsFd,
    name: &str,
    has_multiple_queues: bool,
) -> Result<(), Errno> {
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    let flags = if has_multiple_queues { flags | libc::IFF_MULTI_QUEUE } else { flags };
    let mut request = FlagsRequest { name: device_name(name)?, flags: flags as i16, rest: [0; 22] };
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `request` is.
    unsafe { ioctl(tun, Updater::<TUNSETIFF, _>::new(&mut request)) }
}

/// Whether the device of `tun` still exists.
pub(super) fn is_attached(tun: impl AsFd) -> bool {
    let mut request = FlagsRequest { name: [0; libc::IFNAMSIZ], flags: 0, rest: [0; 22] };
    // SAFETY: TUNGETIFF writes one `struct ifreq`, which `request` is.
    unsafe { ioctl(tun, Updater::<TUNGETIFF, _>::new(&mut request)) }.is_ok()
}

/// The network namespace that the device of `tun` is in.
pub(super) fn namespace(tun: impl AsFd) -> Result<OwnedFd, Errno> {
    // SAFETY: TUNGETDEVNETNS takes no argument and returns a new descriptor.
    unsafe { ioctl(tun, GetNamespace) }
}

/// The request of [`namespace`].
struct GetNamespace;

// SAFETY: no memory is passed. The result of success is a descriptor that nobody else owns.
unsafe impl Ioctl for GetNamespace {
    type Output = OwnedFd;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        TUNGETDEVNETNS
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(result: IoctlOutput, _: *mut c_void) -> rustix::io::Result<OwnedFd> {
        // SAFETY: the kernel has just opened it for this caller.
        Ok(unsafe { OwnedFd::from_raw_fd(result) })
    }
}

/// Sets the length of the virtio network headers of the device of `tun`.
pub(super) fn set_vnet_header_length(tun: impl AsFd, length: usize) -> Result<(), Errno> {
    let mut length = length as c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one `int`.
    unsafe { ioctl(tun, Updater::<TUNSETVNETHDRSZ, _>::new(&mut length)) }
}

/// Says whether the device of `tun` stays when `tun` is closed.
pub(super) fn set_persistent(tun: impl AsFd, persistent: bool) -> Result<(), Errno> {
    // SAFETY: TUNSETPERSIST takes an integer.
    unsafe { ioctl(tun, IntegerSetter::<TUNSETPERSIST>::new_usize(persistent.into())) }
}

/// Lets the kernel pass frames with the work of `offloads` (`TUN_F_*`) left to do.
pub(super) fn set_offloads(tun: impl AsFd, offloads: u32) -> Result<(), Errno> {
    // SAFETY: TUNSETOFFLOAD takes an integer.
    unsafe { ioctl(tun, IntegerSetter::<TUNSETOFFLOAD>::new_usize(offloads as usize)) }
}

/// The `struct ethtool_drvinfo` of device `name`.
pub(super) fn driver_info(name: &str) -> Result<[u8; DRIVER_INFO_LENGTH], Errno> {
    // SAFETY: the length is that of the structure that ETHTOOL_GDRVINFO writes.
    unsafe { ethtool(name, ETHTOOL_GDRVINFO) }
}

/// The `struct ethtool_cmd` of device `name`.
pub(super) fn settings(name: &str) -> Result<[u8; SETTINGS_LENGTH], Errno> {
    // SAFETY: the length is that of the structure that ETHTOOL_GSET writes.
    unsafe { ethtool(name, ETHTOOL_GSET) }
}

/// The `struct ethtool_value` of device `name` with its flags.
pub(super) fn flags(name: &str) -> Result<[u8; VALUE_LENGTH], Errno> {
    // SAFETY: the length is that of the structure that ETHTOOL_GFLAGS writes.
    unsafe { ethtool(name, ETHTOOL_GFLAGS) }
}

/// The `struct ethtool_channels` of device `name`.
pub(super) fn channels(name: &str) -> Result<[u8; CHANNELS_LENGTH], Errno> {
    // SAFETY: the length is that of the structure that ETHTOOL_GCHANNELS writes.
    unsafe { ethtool(name, ETHTOOL_GCHANNELS) }
}

/// The structure that the kernel writes for ethtool command `command`.
///
/// # Safety
/// `N` is the length of that structure or more.
unsafe fn ethtool<const N: usize>(name: &str, command: u32) -> Result<[u8; N], Errno> {
    let mut structure = [0; N];
    for (byte, value) in structure.iter_mut().zip(command.to_ne_bytes()) {
        *byte = value;
    }
    let mut request = PointerRequest {
        name: device_name(name)?,
        pointer: structure.as_mut_ptr().cast(),
        rest: [0; 16],
    };
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: SIOCETHTOOL reads a `struct ifreq`, which `request` is, and writes the structure of
    // `command` where it points to: `N` bytes that live until the end of this function.
    unsafe { ioctl(socket, Updater::<SIOCETHTOOL, _>::new(&mut request)) }?;
    Ok(structure)
}
