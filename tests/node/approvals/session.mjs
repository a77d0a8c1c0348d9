// A client of either TypeScript SDK as an application whose person is asked things. What it is told and what it tells are
// lines of JSON on standard input and output.
//
// The first line is how to connect: {url, token, era, modes}. Each further line is a call, {program, ticket, progress},
// answered with {result}; before that comes {asked} for each question, whose answer is the next line.

import { createInterface } from 'node:readline';

const TOOL = 'execute_diagnostic_pipeline';

/** Do what the lines say; `sdk` holds what the versions do not have in common. */
export const serve = async (sdk) => {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    return done ? undefined : JSON.parse(value);
  };
  const tell = (what) => console.log(JSON.stringify(what));

  const { url, token, era, modes } = await next();
  const elicitation = Object.fromEntries(modes.map((mode) => [mode, {}]));
  const client = sdk.client(era, modes.length ? { elicitation } : {});
  const completed = [];
  if (modes.length) {
    sdk.onQuestion(client, async ({ params }) => {
      tell({ asked: params });
      return await next();
    });
    sdk.onComplete(client, ({ params }) => void completed.push(params.elicitationId));
  }
  const headers = { Authorization: `Bearer ${token}` };
  await client.connect(new sdk.Transport(new URL(url), { requestInit: { headers } }));
  tell({});
  for (let step = await next(); step; step = await next()) {
    const { program, ticket, progress, timeout } = step;
    const told = [];
    const options = { timeout, ...(progress && { onprogress: ({ message }) => void told.push(message), resetTimeoutOnProgress: true }) };
    const call = { name: TOOL, arguments: { program, ...(ticket && { _confirmation_token: ticket }) } };
    try {
      const result = await sdk.call(client, call, options);
      tell({ result, told, completed });
    } catch (error) {
      tell({ error: error.message });
    }
  }
  await client.close();
};
