//! Models of what threads share in offload, run by `make model` under every interleaving that
//! matters.

use std::num::NonZeroU32;
use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;

use super::inbox::{Association, Inbox};
use super::mark::{DrainWatch, Mark, MarkPool};
use crate::flow::{FlowKey, FlowMask, Ufid};
use crate::flow_table::{FlowRecord, WorkerId};

fn association(number: u32) -> Association {
    let (key, mask) = (FlowKey::default(), FlowMask::default());
    let flow = FlowRecord::new(Ufid(1), WorkerId::Main, key, mask, Arc::new([]));
    let mark = Mark::from(NonZeroU32::new(number).unwrap());
    Association { flow: Arc::new(flow), mark }
}

/// A thread hears of every association once, in order, however its looks fall between the
/// worker's words.
#[test]
fn model_no_association_is_lost() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::default());
        let worker = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                (1..=2).for_each(|number| inbox.push([association(number)].into_iter()))
            })
        };
        let marks = |heard: Vec<Association>| -> Vec<u32> {
            heard.iter().map(|association| association.mark.number().get()).collect()
        };
        let mut heard = marks(inbox.take());
        heard.extend(marks(inbox.take()));
        worker.join().unwrap();
        heard.extend(marks(inbox.take()));
        assert_eq!(heard, [1, 2]);
    });
}

/// What the hardware and a receive ring have to do with one mark.
struct Device {
    has_rule: bool,
    ring: Vec<u32>,
}

/// A mark is not given out again while a packet with it lies in a ring, although the poll thread
/// looks into the ring and tells of it in two steps.
#[test]
fn model_no_mark_is_given_out_while_a_packet_carries_it() {
    loom::model(|| {
        let mut pool = MarkPool::new(0, 1, 1);
        let mark = pool.take().unwrap();
        let device = Arc::new(Mutex::new(Device { has_rule: true, ring: vec![] }));
        let mut watch = DrainWatch::default();
        let drain = Arc::clone(&watch.drain);
        let poll = {
            let device = Arc::clone(&device);
            thread::spawn(move || {
                for _ in 0..3 {
                    let count = device.lock().unwrap().ring.drain(..).count();
                    watch.received(count);
                }
                // The queue stays open: its end would free the mark.
                std::mem::forget(watch);
            })
        };
        {
            // A packet arrives just before the rule goes.
            let mut device = device.lock().unwrap();
            if device.has_rule {
                device.ring.push(mark.number().get());
            }
        }
        device.lock().unwrap().has_rule = false;
        pool.give_back(mark, &[drain]);
        for _ in 0..2 {
            if let Some(next) = pool.take() {
                let device = device.lock().unwrap();
                assert!(device.ring.is_empty(), "{next:?} follows {mark:?} too early");
                break;
            }
            thread::yield_now();
        }
        poll.join().unwrap();
    });
}
