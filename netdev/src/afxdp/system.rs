//! System calls that no library wraps: bpf(2), and options of AF_XDP sockets that are too new.
//!
//! The rules: each argument structure is initialised in full, has the layout and the length that
//! the kernel reads and writes for its command (`union bpf_attr` in linux/bpf.h), and outlives the
//! call together with all memory that it points to. The kernel keeps no pointer.
#![expect(unsafe_code, reason = "system calls that no library wraps")]

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

const BPF_MAP_CREATE: c_int = 0;
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_PROG_LOAD: c_int = 5;
const BPF_PROG_GET_FD_BY_ID: c_int = 13;
const BPF_OBJ_GET_INFO_BY_FD: c_int = 15;
const BPF_LINK_CREATE: c_int = 28;
#[cfg(test)]
const BPF_LINK_DETACH: c_int = 34;

const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
/// `BPF_XDP` of `enum bpf_attach_type`.
const ATTACH_TYPE_XDP: u32 = 37;
/// Longest name of a program, with the NUL at its end.
const NAME_LENGTH: usize = 16;
/// The kernel functions that programs call are for programs under this licence alone.
const LICENCE: &[u8] = b"Dual MIT/GPL\0";
const LOG_LENGTH: usize = 1 << 16;

/// Option of AF_XDP sockets (linux/if_xdp.h): how many packets one call sends by way of the
/// kernel's own buffers. Linux 6.18 and later.
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;
const SO_PREFER_BUSY_POLL: c_int = 69;
const SO_BUSY_POLL_BUDGET: c_int = 70;

/// A program was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) errno: Errno,
    /// What the verifier says, if it got to see the program.
    pub(super) log: String,
}

/// How a program is loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadOptions<'a> {
    pub(super) name: &'a str,
    /// `BPF_F_*`.
    pub(super) flags: u32,
    /// The device that the program is for; 0 when it is for any.
    pub(super) device: u32,
    /// Whether the verifier is to say what it finds.
    pub(super) wants_log: bool,
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_LENGTH],
    device: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    device: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct GetById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[repr(C)]
struct GetInfo {
    object: u32,
    length: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to the name.
#[repr(C)]
struct ProgramInfo {
    program_type: u32,
    id: u32,
    before_name: [u64; 7],
    name: [u8; NAME_LENGTH],
}

/// `struct bpf_link_info` of links to network devices.
#[repr(C)]
struct LinkInfo {
    link_type: u32,
    id: u32,
    program: u32,
    padding: u32,
    device: u32,
    padding_at_end: u32,
}

/// Does `command` with `argument`.
///
/// # Safety
/// `T` is the structure of `command`, and what it points to is as the module says.
unsafe fn bpf<T>(command: c_int, argument: &mut T) -> Result<c_int, Errno> {
    let pointer: *mut T = argument;
    // SAFETY: the kernel reads and writes `size_of::<T>()` bytes of `argument`, and what the caller
    // vouches for.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) };
    checked(result)
}

fn checked(result: i64) -> Result<c_int, Errno> {
    c_int::try_from(result).ok().filter(|result| *result >= 0).ok_or_else(|| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}

/// Does `command`, whose result is a new descriptor.
///
/// # Safety
/// As for [`bpf`]; and success of `command` is a descriptor that nobody else owns.
unsafe fn open<T>(command: c_int, mut argument: T) -> Result<OwnedFd, Errno> {
    // SAFETY: as the caller vouches for.
    let descriptor = unsafe { bpf(command, &mut argument) }?;
    // SAFETY: as the caller vouches for.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A map from receive queues to sockets (`BPF_MAP_TYPE_XSKMAP`).
pub(super) fn create_socket_map(entries: u32) -> Result<OwnedFd, Errno> {
    let argument = MapCreate {
        map_type: BPF_MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: entries,
    };
    // SAFETY: the structure is that of the command, without its optional end.
    unsafe { open(BPF_MAP_CREATE, argument) }
}

/// Puts `socket` at `queue` of a map of sockets.
pub(super) fn set_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let value = raw(socket);
    let (key, value): (*const u32, *const u32) = (&queue, &value);
    let mut argument =
        MapUpdate { map: raw(map), padding: 0, key: key as u64, value: value as u64, flags: 0 };
    // SAFETY: key and value have the sizes that the map was made with.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut argument) }.map(drop)
}

/// Loads an XDP program.
pub(super) fn load(instructions: &[u64], options: LoadOptions<'_>) -> Result<OwnedFd, Refusal> {
    let mut name = [0; NAME_LENGTH];
    let places = name.iter_mut().take(NAME_LENGTH - 1);
    places.zip(options.name.bytes()).for_each(|(place, byte)| *place = byte);
    let mut log = vec![0u8; if options.wants_log { LOG_LENGTH } else { 0 }];
    let argument = ProgramLoad {
        program_type: BPF_PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level: u32::from(options.wants_log),
        log_size: log.len() as u32,
        log: if options.wants_log { log.as_mut_ptr() as u64 } else { 0 },
        kernel_version: 0,
        flags: options.flags,
        name,
        device: options.device,
        attach_type: ATTACH_TYPE_XDP,
    };
    // SAFETY: the structure is that of the command, without its optional end; instructions and log
    // have the lengths that it says, and the licence ends with a NUL.
    unsafe { open(BPF_PROG_LOAD, argument) }.map_err(|errno| {
        let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
        Refusal { errno, log: String::from_utf8_lossy(text).into_owned() }
    })
}

/// Attaches `program` to `device` for as long as the link that is returned is open. `flags` are
/// `XDP_FLAGS_*`.
pub(super) fn attach(program: BorrowedFd<'_>, device: u32, flags: u32) -> Result<OwnedFd, Errno> {
    let argument =
        LinkCreate { program: raw(program), device, attach_type: ATTACH_TYPE_XDP, flags };
    // SAFETY: the structure is that of the command, without its optional end.
    unsafe { open(BPF_LINK_CREATE, argument) }
}

/// The device that `link` attaches a program to; none when the program was detached, or the device
/// is gone.
pub(super) fn linked_device(link: BorrowedFd<'_>) -> Result<Option<u32>, Errno> {
    let mut info =
        LinkInfo { link_type: 0, id: 0, program: 0, padding: 0, device: 0, padding_at_end: 0 };
    info_of(link, &mut info)?;
    Ok((info.device != 0).then_some(info.device))
}

/// Detaches the program of `link`, as another process may.
#[cfg(test)]
pub(super) fn detach(link: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut link = raw(link);
    // SAFETY: the structure of the command is one descriptor.
    unsafe { bpf(BPF_LINK_DETACH, &mut link) }.map(drop)
}

/// The name of the program with number `id`.
pub(super) fn program_name(id: u32) -> Result<String, Errno> {
    let argument = GetById { id, next_id: 0, open_flags: 0 };
    // SAFETY: the structure is that of the command.
    let program = unsafe { open(BPF_PROG_GET_FD_BY_ID, argument) }?;
    let mut info =
        ProgramInfo { program_type: 0, id: 0, before_name: [0; 7], name: [0; NAME_LENGTH] };
    info_of(program.as_fd(), &mut info)?;
    let name = info.name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Reads what the kernel knows of `object` to `info`, which has the layout of the first part of
/// what it knows, and only integers.
fn info_of<T>(object: BorrowedFd<'_>, info: &mut T) -> Result<(), Errno> {
    let pointer: *mut T = info;
    let mut argument =
        GetInfo { object: raw(object), length: size_of::<T>() as u32, info: pointer as u64 };
    // SAFETY: the kernel writes no more than the given length of `info`. Where it reads pointers to
    // more memory, `info` has zeros, which are none.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut argument) }.map(drop)
}

/// Lets one call send up to `packets` by way of the kernel's own buffers.
pub(super) fn set_transmit_budget(socket: impl AsFd, packets: u32) -> Result<(), Errno> {
    set_option(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, packets)
}

/// Lets calls on `socket` do the work of the device's interrupts, for up to `microseconds` and
/// `budget` packets at a time.
pub(super) fn set_busy_poll(
    socket: impl AsFd,
    microseconds: u32,
    budget: u32,
) -> Result<(), Errno> {
    let socket = socket.as_fd();
    set_option(socket, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, 1)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, microseconds)?;
    set_option(socket, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, budget)
}

fn set_option(socket: impl AsFd, level: c_int, option: c_int, value: u32) -> Result<(), Errno> {
    let pointer: *const u32 = &value;
    let length = size_of::<u32>() as u32;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `length` bytes of `value`.
    let result = unsafe { libc::setsockopt(socket, level, option, pointer.cast(), length) };
    checked(result.into()).map(drop)
}

fn raw(descriptor: BorrowedFd<'_>) -> u32 {
    descriptor.as_raw_fd() as u32
}
