// What stands in for the person's browser: it goes where it is sent, with cookies, until it is sent back to the client.

const MOST_STEPS = 20;

/** Return where the client at `home` is sent back to, as a URL, when a browser opens `start`. */
export const visit = async (start, home) => {
  const cookies = new Map();
  let url = new URL(start);
  for (let step = 0; step < MOST_STEPS; step += 1) {
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
    });
    await answer.body?.cancel();
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      cookies.set(name, value);
    }
    if (!answer.headers.has('location')) throw new Error(`${url.origin}${url.pathname} answered ${answer.status}`);
    url = new URL(answer.headers.get('location'), url);
    if (url.href.startsWith(home)) return url;
  }
  throw new Error(`no way back to the client in ${MOST_STEPS} steps`);
};
