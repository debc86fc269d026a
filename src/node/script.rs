//! The scripts that nodes run.
//!
//! The engine sends the scripts as SHA-1 digests or as text: see `recipes`. The digests are constants, because some
//! systems do not let a build compute SHA-1. A test compares these digests with the digests from a server.
//!
//! # With a strict restart guard
//!
//! The script [`JOIN`] reads and writes the [marker](super::trust::marker) of a node. `JOIN` runs in every handshake,
//! and whenever another script reports an unexpected marker. The other scripts change the key of the lock exactly as
//! the plain commands do. The scripts change the key even if the node does not vote, because the key still prevents
//! other clients from taking the lock. Each script answers with two integers: the answer of the plain command, and
//! whether this answer counts.
//!
//! ```text
//! {said, 0}     it counts: the marker is the one given, and there is no barrier
//! {said, n}     it does not count: the barrier ends within n milliseconds
//! {said, -1}    it does not count: the marker is missing, or is another one
//! ```
//!
//! In every answer, a barrier without an expiry counts as a barrier that ends within one second.
//!
//! # Not here
//!
//! Releases use the plain scripts, because a node may release a key whether or not it votes.

mod fencing;
mod numbered;
mod permit;
mod several;
mod shared;

pub(crate) use fencing::{
    COUNT_COUNTERS, LIST_NAMES, LOOK_AT_FLOOR, RAISE_FENCED, REPAIR_FLOOR, SET_FLOOR, TAKE_FENCED,
};
pub(crate) use numbered::{RAISE_MEMBER, TAKE_SHARED_FENCED, TAKE_SLOT_FENCED};
pub(crate) use permit::{MOVE_SLOT, TAKE_SLOT};
pub(crate) use several::{CONFIRM_SEVERAL, EXTEND_SEVERAL, RELEASE_SEVERAL, TAKE_SEVERAL};
pub(crate) use shared::{
    CONFIRM_MEMBER, EXTEND_MEMBER, LEAVE_INTENT, RELEASE_MEMBER, TAKE_SHARED, keeps_out,
};

/// Ends a script with the expression `$refused` if the user may not run the command `ARGV[i]` on the key `$key`. `c` is
/// `redis.acl_check_cmd`. Some servers check the number of arguments, so the script passes one argument to `get` and
/// `pttl`, and the key twice to the other commands.
macro_rules! end_unless_permitted {
    ($key:literal, $refused:literal) => {
        concat!(
            "local a,y=ARGV[i] if a=='get' or a=='pttl' then y=c(a,",
            $key,
            ") else y=c(a,",
            $key,
            ",",
            $key,
            ") end if not y then return ",
            $refused,
            " end"
        )
    };
}
use end_unless_permitted;

/// A script, and its digest.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) sha1: &'static str,
}

/// Deletes the key if it contains the token. Answers `1` if the key was deleted, `0` if it does not exist, and `-1` if
/// it belongs to another client.
pub(crate) const RELEASE: Script = Script {
    text: "local v=redis.call('get',KEYS[1]) \
           if v==ARGV[1] then return redis.call('del',KEYS[1]) end \
           if v then return -1 end return 0",
    sha1: "4453c08d4b7260dfec522c1d9be6140ee00157cb",
};

/// Raises the expiry of the key if it contains the token. Answers `1` if the key now lives at least that long, `0` if
/// it does not exist, and `-1` if it belongs to another client. The script never shortens an expiry, and never adds an
/// expiry to a key that an operator made permanent.
///
/// After its own write, the script reads the key again, because the write uses up the registration for the next change:
/// see `tracking`.
pub(crate) const EXTEND: Script = Script {
    text: "local v=redis.call('get',KEYS[1]) \
           if v==ARGV[1] then local p=redis.call('pttl',KEYS[1]) \
           if p>=0 and p<tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) \
           redis.call('pttl',KEYS[1]) end return 1 end \
           if v then return -1 end return 0",
    sha1: "861c16b0751b430a3233aad3e2ab867202584ef5",
};

/// Runs [`EXTEND`] for each of several keys, and answers with a list of the results. The arguments contain a token and
/// a ttl for each key. If a command fails for one key, the list contains the error for this key, and the other keys are
/// still extended.
pub(crate) const EXTEND_EACH: Script = Script {
    text: "local c,a=redis.pcall,{} for i,k in ipairs(KEYS) do \
           local v,t,s=c('get',k),ARGV[2*i],0 \
           if v==ARGV[2*i-1] then s=1 local p=c('pttl',k) \
           if type(p)=='table' then s=p elseif p>=0 and p<tonumber(t) then \
           p=c('pexpire',k,t) c('pttl',k) if type(p)=='table' then s=p end end \
           elseif type(v)=='table' then s=v elseif v then s=-1 end a[i]=s end return a",
    sha1: "ab45eed4405dc0e1a96a226b5088d35bf5f4512a",
};

/// Runs [`RELEASE`] for each of several keys, and answers with a list of the results. The arguments contain a token for
/// each key. If a command fails for one key, the list contains the error for this key, and the other keys are still
/// released.
pub(crate) const RELEASE_EACH: Script = Script {
    text: "local c,a=redis.pcall,{} for i,k in ipairs(KEYS) do \
           local v=c('get',k) if v==ARGV[i] then v=c('del',k) \
           elseif type(v)=='string' then v=-1 end a[i]=v or 0 end return a",
    sha1: "d69605c5805009ab0e3862a8ef1a0ec74af88a05",
};

/// If the key contains the token, answers with the remaining milliseconds of the key (zero or more) plus one. Otherwise
/// answers `0` if the key does not exist, and `-1` if it belongs to another client. For a key without an expiry, the
/// script assumes 9e15 milliseconds, because larger numbers would not be exact in Lua.
///
/// The script is always sent as text, because it is used too rarely to be loaded in the handshake.
pub(crate) const CONFIRM: Script = Script {
    text: "local v=redis.call('get',KEYS[1]) \
           if v==ARGV[1] then local p=redis.call('pttl',KEYS[1]) \
           if p<0 then p=9e15 end return p+1 end \
           if v then return -1 end return 0",
    sha1: "eff39a10bfd4f5ef8734aa1fc598a9ee03919210",
};

/// Replaces the token in the key with another token, and keeps the expiry. Answers with the remaining milliseconds of
/// the key plus one, `0` if the key does not exist, and `-1` if it belongs to another client. A key that already has
/// the new token counts as replaced. A key without an expiry counts as a key of another client, because it would block
/// other clients for ever.
///
/// The script is always sent as text, because it is used too rarely to be loaded in the handshake.
pub(crate) const OVERWRITE: Script = Script {
    text: "local v,t=redis.call('get',KEYS[1]),ARGV[2] \
           if v==ARGV[1] or v==t then local p=redis.call('pttl',KEYS[1]) \
           if p>=0 then redis.call('set',KEYS[1],t,'xx','keepttl') return p+1 end end \
           if v then return -1 end return 0",
    sha1: "a0c929ad7a26c6c16212348c2ec97887478c5218",
};

/// Takes the first lock on a connection, in place of `SET`. The script takes the lock only if the user may run all
/// commands in the arguments after the token and the ttl. Answers `1` if the lock was taken, and `0` if the key belongs
/// to another client. Answers `-n` if the n-th command is forbidden and nothing was done. Without a ttl the script only
/// checks the permissions. Redis 6.2 cannot check permissions, so the script always tries to take the lock there.
///
/// The script checks the permissions for the name of this lock, because permissions depend on the name.
pub(crate) const SET_IF_PERMITTED: Script = Script {
    text: concat!(
        "local c,k=redis.acl_check_cmd,KEYS[1] if c then for i=3,#ARGV do ",
        end_unless_permitted!("k", "2-i"),
        " end end if ARGV[2]=='' then return 0 end \
           return redis.call('set',k,ARGV[1],'nx','px',ARGV[2]) and 1 or 0"
    ),
    sha1: "f44fbb47329f6240174dcf2a6d84c503009bf73e",
};

/// Returns three values. The first value is the remaining milliseconds of the key plus one, or `0` if the key does not
/// exist. The second value says whether the answer counts, if the script checks a marker (see the [module](self)). The
/// third value is the token. A value that is longer than any token is truncated to one byte more than the maximum
/// length of a token.
///
/// Shared locks and permits keep their holders as members of a sorted set, with deadlines. If the key is a sorted set
/// with a live member, the third value lists the live members, each with its remaining milliseconds. The list has at
/// most `HOLDERS_SHOWN_MAX` members. If there are more, the script leaves out those that expire last. Long members are
/// truncated too.
///
/// A single script reads the time and the token, so that the two values belong to the same moment. The script is always
/// sent as text, because it is used too rarely to be loaded in the handshake.
pub(crate) const INSPECT: Script = Script {
    text: "local c,k,s,b=redis.pcall,KEYS[1],0,0 local v=c('get',k) \
           if type(v)=='table' then local w,l=c('time'),c('zrange',k,-1,-1,'withscores') \
           local n,x=w[1] and w[1]*1000+(w[2]-w[2]%1000)/1000,tonumber(l[2]) \
           v={} if n and x and x>=n and x<=9e15 then \
           v=c('zrange',k,n,'inf','byscore','limit',0,512,'withscores') end \
           if not v[1] then redis.call('get',k) end \
           for i=2,#v,2 do v[i-1],v[i]=string.sub(v[i-1],1,95),v[i]-n end s=x-n+1 \
           elseif v then s=redis.call('pttl',KEYS[1]) if s==-1 then s=9e15 end s=math.max(s+1,0) end \
           if KEYS[2] then \
           local m=redis.pcall('get',KEYS[2]) b=redis.call('pttl',KEYS[3]) \
           if m~=ARGV[1] then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end end \
           return {s,b,type(v)=='table' and v or string.sub(v or '',1,85)}",
    sha1: "c5f4c7cf078ae5bb65e10725daf4cec708f82d1f",
};

/// Makes a node a member of a group, unless its marker belongs to another group.
///
/// The keys are the marker and the barrier. The arguments are the `run_id`, the longest ttl, the number of nodes, the
/// quorum, and the name of the group. The last three arguments are whether the server is durable (`1` yes, `0` no, `-`
/// unknown), the length of the barrier, and the mode `join`, `trust` or `anew`. The script answers with three values.
/// The first value is 1, or 0 if the marker belongs to another group and nothing was changed. The second value is the
/// number of milliseconds until the barrier ends. The third value is the current marker.
///
/// The script writes a marker if none exists, if the marker belongs to another incarnation of the server, or if the
/// longest ttl in the marker is too short. With a marker, the script also writes a barrier, except in the cases below.
/// The script writes the barrier before the marker, and never shortens a barrier. After a restart of the server, the
/// script writes no barrier if both the marker and this client say that a restart loses nothing. A server that has a
/// replica, or was a replica, never counts as durable, even if the client considers it durable. The marker of a former
/// replica may come from another master. The mode `anew` makes the node a member of this group regardless of its
/// marker. The mode `trust` omits the barrier.
pub(crate) const JOIN: Script = Script {
    text: "local m,p=redis.call('get',KEYS[1]),redis.call('pttl',KEYS[2]) \
           local left=p+1 if p==-1 then left=1000 elseif p<0 then left=0 end \
           local ttl,span,mode=tonumber(ARGV[2]),tonumber(ARGV[7]),ARGV[8] \
           local top,d,lost=ttl,ARGV[6],true \
           if d=='1' then \
           local i=tostring(redis.pcall('info','replication')) \
           if not string.find(i,'connected_slaves:0%c.*master_replid2:0+%c') then d='0' end end \
           if m then \
           local r,t,n,q,e,c=string.match(m,'^1 (%S+) (%d+) (%d+) (%d+) ([01]) (%S+)$') \
           if (n~=ARGV[3] or q~=ARGV[4] or c~=ARGV[5]) and mode~='anew' then return {0,left,m} end \
           t=tonumber(t or 0) top=math.max(ttl,t) \
           if mode~='anew' then \
           if r==ARGV[1] then lost=ttl>t if d=='-' then d=e elseif e=='0' then d=e end \
           else lost=ttl>t or e~='1' or d~='1' end \
           ttl=top end end \
           if d~='1' then d='0' end \
           local w='1 '..ARGV[1]..' '..string.format('%.0f',ttl)..' '..ARGV[3]..' '..ARGV[4]..' '..d..' '..ARGV[5] \
           if mode=='trust' then redis.call('del',KEYS[2]) left=0 \
           elseif lost then \
           local bar=math.ceil(span*top/tonumber(ARGV[2])) \
           if p~=-1 and bar>left then redis.call('set',KEYS[2],'1','px',string.format('%.0f',bar)) left=bar end end \
           if w~=m then redis.call('set',KEYS[1],w) end \
           return {1,left,w}",
    sha1: "59534fe468c207290343f3f842fceb3d4c79f9bb",
};

/// The last part of a script that checks a marker. The first part puts the answer of the plain command into `s`. The
/// last part adds whether this answer counts. `$marker` is the argument with the expected marker.
macro_rules! said_and_whether_it_counts {
    ($marker:literal) => {
        concat!(
            "local m,b=redis.pcall('get',KEYS[2]),redis.call('pttl',KEYS[3]) if m~=",
            $marker,
            " then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end return {s,b}"
        )
    };
}

/// Runs `SET NX PX`, and adds whether the answer counts. The first integer of the answer is 1 if the key was set, and 0
/// otherwise. If the user may not run the n-th of the commands after the marker, the script does nothing and answers
/// only `-n`: see [`SET_IF_PERMITTED`].
pub(crate) const CHECKED_ACQUIRE: Script = Script {
    text: concat!(
        "local c,s=redis.acl_check_cmd,0 if c then for i=4,#ARGV do ",
        end_unless_permitted!("KEYS[1]", "3-i"),
        " end end if redis.call('set',KEYS[1],ARGV[1],'nx','px',ARGV[2]) then s=1 end ",
        said_and_whether_it_counts!("ARGV[3]")
    ),
    sha1: "e1abfe99af4abd1f120cafa1b0c7fade91f23dd9",
};

/// Runs [`EXTEND`], and adds whether the answer counts.
pub(crate) const CHECKED_EXTEND: Script = Script {
    text: concat!(
        "local v,s=redis.call('get',KEYS[1]),0 \
           if v==ARGV[1] then s=1 local p=redis.call('pttl',KEYS[1]) \
           if p>=0 and p<tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) \
           redis.call('pttl',KEYS[1]) end elseif v then s=-1 end ",
        said_and_whether_it_counts!("ARGV[3]")
    ),
    sha1: "48589953d3ec4993a11ccc034147403e4ff7af26",
};

/// Runs [`CONFIRM`], and adds whether the answer counts.
pub(crate) const CHECKED_CONFIRM: Script = Script {
    text: concat!(
        "local v,s=redis.call('get',KEYS[1]),0 \
           if v==ARGV[1] then s=redis.call('pttl',KEYS[1]) if s<0 then s=9e15 end s=s+1 \
           elseif v then s=-1 end ",
        said_and_whether_it_counts!("ARGV[2]")
    ),
    sha1: "2b1d0e9b48ac40a8976b18239dedc4e1eb6b78ef",
};
