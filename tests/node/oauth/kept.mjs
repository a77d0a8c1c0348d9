// What the provider keeps: in memory, and apart from the provider, which the tests make anew with other keys.

const kept = new Map();

/** The store of one kind of thing, in the form that `oidc-provider` asks for; what has expired the library finds. */
export class Kept {
  constructor(kind) {
    this.kind = kind;
  }

  key = (id) => `${this.kind}:${id}`;
  upsert = async (id, what) => void kept.set(this.key(id), what);
  find = async (id) => kept.get(this.key(id));
  findByUid = async (uid) => this.first((what) => what.uid === uid);
  findByUserCode = async (code) => this.first((what) => what.userCode === code);
  consume = async (id) => void (kept.get(this.key(id)).consumed = Math.floor(Date.now() / 1000));
  destroy = async (id) => void kept.delete(this.key(id));

  async revokeByGrantId(grant) {
    for (const [key, what] of kept) if (what.grantId === grant) kept.delete(key);
  }

  first(is) {
    for (const [key, what] of kept) if (key.startsWith(this.key('')) && is(what)) return what;
    return undefined;
  }
}
