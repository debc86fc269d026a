//! The scripts of a lock on several resources. Each script works on all keys or on none, except that a release deletes
//! each key that contains the token.
//!
//! All of these scripts have the same keys and arguments. The keys are the names, and, if a marker is checked, the keys
//! of the [marker](super::super::trust::marker) and the barrier. The arguments are the token, the ttl, and the marker,
//! which is empty if no marker is checked. The answers have the same form as the answers for one key, with and without
//! the marker check.
//!
//! The scripts are always sent as text, because locks on several resources are rare.

use super::{Script, end_unless_permitted};

/// Takes all keys or none. A missing key is set. A key that already contains the token is kept for at least this ttl.
/// Answers `1` if the keys were taken. Otherwise the script changes nothing. The answer is then `n + 1` if the n-th key
/// belongs to another client or has another type. The answer is `-n` if the n-th of the commands after the marker is
/// forbidden on one of the keys. Without a ttl the script only checks the permissions:
/// see [`SET_IF_PERMITTED`](super::SET_IF_PERMITTED).
///
/// A key that already contains the token is no obstacle, so a node that has lost some of the keys can take them again.
pub(crate) const TAKE_SEVERAL: Script = Script {
    text: concat!(
        "local n,t=#KEYS,ARGV[1] if ARGV[3]~='' then n=n-2 end \
           local c=redis.acl_check_cmd if c then for i=4,#ARGV do for j=1,n do ",
        end_unless_permitted!("KEYS[j]", "3-i"),
        " end end end if ARGV[2]=='' then return 0 end \
           local s=1 for i=1,n do local v=redis.pcall('get',KEYS[i]) \
           if type(v)=='table' and not string.find(v.err,'WRONGTYPE',1,true) then \
           v=redis.call('get',KEYS[i]) end \
           if v and v~=t then s=i+1 break end end \
           if s==1 then for i=1,n do if not redis.call('set',KEYS[i],t,'nx','px',ARGV[2]) then \
           local p=redis.call('pttl',KEYS[i]) \
           if p>=0 and p<tonumber(ARGV[2]) then redis.call('pexpire',KEYS[i],ARGV[2]) end \
           end end end \
           if ARGV[3]=='' then return s end \
           local m,b=redis.pcall('get',KEYS[n+1]),redis.call('pttl',KEYS[n+2]) \
           if m~=ARGV[3] then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end \
           return {s,b}"
    ),
    sha1: "02d2bfa7cbaa9d0862098e337d89a633e6e268e1",
};

/// Raises the expiry of all keys, as [`EXTEND`](super::EXTEND) does, if each key contains the token. Answers `1` if the
/// expiry was raised. Otherwise the script changes nothing. The answer is then `-1` if a key belongs to another client,
/// and `0` if a key does not exist.
pub(crate) const EXTEND_SEVERAL: Script = Script {
    text: "local n,t=#KEYS,ARGV[1] if ARGV[3]~='' then n=n-2 end \
           local s=1 for i=1,n do local v=redis.call('get',KEYS[i]) \
           if not v then if s==1 then s=0 end elseif v~=t then s=-1 end end \
           if s==1 then for i=1,n do \
           local p=redis.call('pttl',KEYS[i]) \
           if p>=0 and p<tonumber(ARGV[2]) then redis.call('pexpire',KEYS[i],ARGV[2]) \
           redis.call('pttl',KEYS[i]) end end end \
           if ARGV[3]=='' then return s end \
           local m,b=redis.pcall('get',KEYS[n+1]),redis.call('pttl',KEYS[n+2]) \
           if m~=ARGV[3] then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end \
           return {s,b}",
    sha1: "b62c3f0e0e2d7978e812f89852a7e58ab5434e44",
};

/// If each key contains the token, answers how much longer all keys live, in the form of [`CONFIRM`](super::CONFIRM).
/// Otherwise answers `-1` if a key belongs to another client, and `0` if a key does not exist. The ttl argument is
/// empty.
pub(crate) const CONFIRM_SEVERAL: Script = Script {
    text: "local n,t=#KEYS,ARGV[1] if ARGV[3]~='' then n=n-2 end \
           local s=1 for i=1,n do local v=redis.call('get',KEYS[i]) \
           if not v then if s==1 then s=0 end elseif v~=t then s=-1 end end \
           if s==1 then s=9e15+1 for i=1,n do local p=redis.call('pttl',KEYS[i]) \
           if p>=0 then s=math.min(s,p+1) end end end \
           if ARGV[3]=='' then return s end \
           local m,b=redis.pcall('get',KEYS[n+1]),redis.call('pttl',KEYS[n+2]) \
           if m~=ARGV[3] then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end \
           return {s,b}",
    sha1: "6063f2735093dc4e0b20f32bdb71c97514baca93",
};

/// Deletes each key that contains the token. Answers `1` if all keys contained the token, `-1` if a key belongs to
/// another client, and `0` if a key did not exist. A key of another type counts as a key of another client. If a read
/// fails with any other error, the script returns this error after it has deleted the other keys.
pub(crate) const RELEASE_SEVERAL: Script = Script {
    text: "local t,n,f,e=ARGV[1],0,0,nil for i=1,#KEYS do local v=redis.pcall('get',KEYS[i]) \
           if v==t then n=n+redis.call('del',KEYS[i]) \
           elseif type(v)=='table' and not string.find(v.err,'WRONGTYPE',1,true) then e=v \
           elseif v then f=-1 end end \
           if e then return e end if n==#KEYS then return 1 end return f",
    sha1: "5c410b73fefd78c25f1693478610aa2d6542292a",
};
