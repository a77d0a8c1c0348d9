// What the pages do beside what they do without scripts: count down, and show at once what others have decided.
(() => {
  'use strict';
  const EVERY = 2000; // milliseconds between two looks at the server
  const TOLD = [60, 15]; // seconds left at which a screen reader is told so

  const announce = (text) => {
    document.getElementById('announce').textContent = text;
  };

  const words = (left) => {
    const minutes = Math.floor(left / 60);
    return minutes ? `${minutes} min ${left % 60} s` : `${left} s`;
  };

  // The clock is the server's: a browser's may be wrong.
  const skews = new WeakMap();
  const left = (element) => {
    if (!skews.has(element)) skews.set(element, Number(element.dataset.now) - Date.now() / 1000);
    return Math.max(0, Math.floor(Number(element.dataset.expires) - Date.now() / 1000 - skews.get(element)));
  };

  const count = () => {
    for (const element of document.querySelectorAll('[data-expires]')) {
      const seconds = left(element);
      const rest = element.textContent.trim().replace(/^.*? left/, ' left');
      const text = seconds ? `${words(seconds)}${rest}` : 'its time is over';
      if (element.textContent !== text) element.textContent = text;
      element.classList.toggle('soon', seconds < 60);
      if (element.getAttribute('role') === 'timer' && TOLD.includes(seconds)) announce(`${seconds} seconds left`);
    }
  };

  const localise = (root) => {
    for (const element of root.querySelectorAll('time[datetime]')) {
      const at = new Date(element.getAttribute('datetime'));
      element.title = element.textContent;
      element.textContent = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' }); // with its zone
    }
  };

  const replace = (old, text) => {
    const made = new DOMParser().parseFromString(text, 'text/html').body.firstElementChild;
    if (!made || !made.dataset.live) return;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const link = focused && focused.getAttribute('href');
    localise(made);
    old.replaceWith(made);
    if (focused) {
      const again = [...made.querySelectorAll('a')].find((each) => link && each.getAttribute('href') === link);
      (again || made).focus();
    }
    announce(made.dataset.says);
    count();
  };

  let asking = false;
  const look = async () => {
    const shown = document.querySelector('[data-live]');
    if (!shown || document.hidden || asking) return;
    asking = true;
    try {
      const query = new URLSearchParams({ version: shown.dataset.version });
      const answer = await fetch(`${shown.dataset.live}?${query}`, { credentials: 'same-origin', redirect: 'error' });
      if (answer.status === 200) replace(shown, await answer.text());
      else if (answer.status === 403) window.location.reload(); // the session is over
    } catch {
      // The server cannot be reached now: the page stays as it is, and asks again.
    } finally {
      asking = false;
    }
  };

  // Where scroll bars hide, as they do on phones, nothing else says that a part of the chart is out of view.
  const box = document.querySelector('.wide');
  const hint = document.querySelector('.sideways');
  if (box && hint) {
    new ResizeObserver(() => {
      hint.classList.toggle('shown', box.scrollWidth > box.clientWidth);
    }).observe(box);
  }

  localise(document);
  if (document.querySelector('[data-live]')) {
    count();
    setInterval(count, 1000);
    setInterval(look, EVERY);
    document.addEventListener('visibilitychange', look);
  }
})();
