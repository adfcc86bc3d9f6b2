// @ts-check
// The field for SQL in the page: it colours what is typed, offers words, and sends what the user does. The kernel
// decides what is offered and what runs. All text becomes text nodes; nothing is parsed as HTML. No network, no build.

/**
 * @typedef {{serial: number, text: string, ran: number, history: string[]}} Shown
 * @typedef {{ask: number, fragment: string, words: string[]} | {}} Offered
 * @typedef {{
 *   get(name: string): any, on(name: string, call: () => void): void, off(name: string, call: () => void): void,
 *   send(content: object): void,
 * }} Model
 */

const PAUSE = 350; // milliseconds after the last letter until the kernel hears of the text
const SOON = 120; // until it is asked for words
const LONGEST = 80; // characters of a statement in the list of earlier ones
const PIECES = new RegExp(
    [
        '(?<comment>--[^\\n]*|/\\*[^]*?(?:\\*/|$))',
        "(?<text>'(?:[^']|'')*(?:'|$))",
        '(?<name>"(?:[^"]|"")*(?:"|$))',
        '(?<parameter>(?<!:):[A-Za-z_]\\w*)',
        '(?<number>(?<![\\p{L}\\p{N}_.])(?:\\d[\\d_]*\\.?\\d*|\\.\\d+)(?:e[+-]?\\d+)?)',
        '(?<word>[\\p{L}_][\\p{L}\\p{N}_]*)',
    ].join('|'),
    'giu',
);

/**
 * Cut a statement into pieces, each with its kind; those between have none. Together they are the statement.
 * @param {string} text @param {Set<string>} keywords in capitals
 * @returns {{kind: string, text: string}[]}
 */
export function piecesOf(text, keywords) {
    const pieces = [];
    let end = 0;
    for (const match of text.matchAll(PIECES)) {
        if (match.index > end) {
            pieces.push({kind: '', text: text.slice(end, match.index)});
        }
        let [kind] = Object.entries(match.groups ?? {}).find(([, found]) => found !== undefined) ?? [''];
        if (kind === 'word') {
            kind = keywords.has(match[0].toUpperCase()) ? 'keyword' : '';
        }
        pieces.push({kind, text: match[0]});
        end = match.index + match[0].length;
    }
    if (end < text.length) {
        pieces.push({kind: '', text: text.slice(end)});
    }
    return pieces;
}

/**
 * Make an element; a property that it does not have becomes an attribute.
 * @param {string} tag @param {Record<string, any>} [given] @param {...(Node | string)} inside
 * @returns {any}
 */
function made(tag, given = {}, ...inside) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
        if (name in element) {
            /** @type {any} */ (element)[name] = value;
        } else {
            element.setAttribute(name, String(value));
        }
    }
    element.append(...inside);
    return element;
}

let editors = 0; // lists of words have ids, by which a screen reader finds them

class Editor {
    /** @param {Model} model @param {HTMLElement} el */
    constructor(model, el) {
        this.model = model;
        this.keywords = new Set(model.get('keywords'));
        this.serial = -1;
        this.ran = -1;
        this.ask = 0;
        this.isAsked = false; // whether the user asked for words
        this.at = -1; // which word of the list is chosen
        this.back = -1; // which earlier statement is shown
        this.draft = ''; // what was typed before one was
        this.timers = new Map();
        editors += 1;
        this.id = `sleeper-sql-words-${editors}`;
        this.paper = made('pre', {'aria-hidden': 'true'});
        this.field = made('textarea', {
            'aria-label': 'Query on DuckDB',
            'aria-autocomplete': 'list',
            'aria-controls': this.id,
            'aria-expanded': 'false',
            'aria-description': 'Control Enter runs it, Control Space offers words, Alt Up shows earlier queries',
            'data-lm-suppress-shortcuts': 'true', // JupyterLab leaves it its keys
            spellcheck: false,
            autocapitalize: 'off',
            autocomplete: 'off',
            rows: 4,
        });
        this.list = made('div', {id: this.id, role: 'listbox', 'aria-label': 'Words', hidden: true});
        this.run = made(
            'button',
            {type: 'button', title: 'Run the query on DuckDB (Ctrl+Enter); it cannot change anything'},
            'Run',
        );
        this.earlier = made('select', {'aria-label': 'Earlier queries', hidden: true});
        this.note = made('span', {role: 'status', className: 'sleeper-sql-note'});
        const box = made('div', {className: 'sleeper-sql-box'}, this.paper, this.field, this.list);
        const bar = made('div', {className: 'sleeper-sql-bar'}, this.run, this.earlier, this.note);
        el.append(made('div', {className: 'sleeper-sql-editor'}, box, bar));
        this.listen();
        this.watches = /** @type {[string, () => void][]} */ ([
            ['change:shown', () => this.update()],
            ['change:offered', () => this.offer()],
        ]);
        for (const [name, call] of this.watches) {
            model.on(name, call);
        }
        this.update();
    }

    listen() {
        this.field.addEventListener('input', () => this.typed());
        this.field.addEventListener('keydown', (/** @type {KeyboardEvent} */ e) => this.key(e));
        // the notebook would take a new line for a wish to edit the cell
        this.field.addEventListener('keypress', (/** @type {KeyboardEvent} */ e) => e.stopPropagation());
        this.field.addEventListener('blur', () => this.closeList());
        this.field.addEventListener('click', () => this.closeList());
        this.run.addEventListener('click', () => this.sendRun());
        this.earlier.addEventListener('change', () => {
            if (this.earlier.value !== '') {
                this.replace(this.shown.history[Number(this.earlier.value)]);
                this.earlier.value = '';
                this.field.focus();
            }
        });
        // a press on the list would take the focus from the field, which closes the list
        this.list.addEventListener('pointerdown', (/** @type {PointerEvent} */ e) => e.preventDefault());
        this.list.addEventListener('click', (/** @type {MouseEvent} */ e) => {
            const option = /** @type {HTMLElement} */ (e.target).closest('[role=option]');
            if (option) {
                this.accept([...this.list.children].indexOf(option));
            }
        });
    }

    close() {
        for (const [name, call] of this.watches) {
            this.model.off(name, call);
        }
        for (const timer of this.timers.values()) {
            clearTimeout(timer);
        }
    }

    /** @returns {Shown} */
    get shown() {
        return this.model.get('shown');
    }

    /** @param {string} what @param {number} pause @param {() => void} call */
    later(what, pause, call) {
        clearTimeout(this.timers.get(what));
        this.timers.set(what, setTimeout(call, pause));
    }

    /** Show a text that the kernel chose; what is being typed stays, until then. */
    update() {
        const {serial, text, ran, history} = this.shown;
        if (serial !== this.serial) {
            this.serial = serial;
            if (this.field.value !== text) {
                this.field.value = text;
                this.back = -1;
            }
        }
        if (ran !== this.ran) {
            this.ran = ran;
            this.note.textContent = '';
        }
        const options = history.map((each, at) => {
            const line = each.replace(/\s+/g, ' ').trim();
            return made('option', {value: at}, line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line);
        });
        this.earlier.replaceChildren(made('option', {value: ''}, 'Earlier queries'), ...options);
        this.earlier.hidden = !history.length;
        this.paint();
    }

    /** Colour the text: it is written a second time, below the transparent text of the field. */
    paint() {
        const spans = piecesOf(this.field.value, this.keywords).map(({kind, text}) =>
            kind ? made('span', {className: `sleeper-sql-${kind}`}, text) : text,
        );
        this.paper.replaceChildren(...spans, '\n'); // the last line has its height when it is empty too
    }

    typed() {
        this.back = -1;
        this.paint();
        this.closeList();
        const {value} = this.field;
        this.later('type', PAUSE, () => this.model.send({do: 'type', text: value}));
        if (/[\p{L}_.@$]$/u.test(this.before()) && this.isOpenToWords()) {
            this.later('words', SOON, () => this.askWords(false));
        }
    }

    /** @returns {string} the text up to the cursor */
    before() {
        return this.field.value.slice(0, this.field.selectionStart);
    }

    /** Whether the cursor is neither in a text nor in a comment. */
    isOpenToWords() {
        const last = piecesOf(this.before(), this.keywords).pop();
        return !last || !['text', 'comment', 'number'].includes(last.kind);
    }

    /** @param {boolean} isAsked */
    askWords(isAsked) {
        this.ask += 1;
        this.isAsked = isAsked;
        this.model.send({do: 'complete', before: this.before(), text: this.field.value, ask: this.ask});
    }

    /** Show the words that the kernel offers, at the cursor. */
    offer() {
        const offered = this.model.get('offered');
        if (offered.ask !== this.ask || document.activeElement !== this.field) {
            return;
        }
        const {words, fragment} = offered;
        if (!words.length || (words.length === 1 && words[0] === fragment)) {
            this.closeList();
            if (this.isAsked) {
                this.note.textContent = 'no word to offer here';
            }
            return;
        }
        this.note.textContent = '';
        this.list.replaceChildren(
            ...words.map((/** @type {string} */ word, /** @type {number} */ at) =>
                made('div', {role: 'option', id: `${this.id}-${at}`, 'aria-selected': 'false'}, word),
            ),
        );
        this.list.hidden = false;
        this.field.setAttribute('aria-expanded', 'true');
        this.place(fragment.length);
        this.choose(this.isAsked ? 0 : -1);
    }

    /** Put the list below the word that is being typed. @param {number} length of the fragment */
    place(length) {
        const at = this.before().length - length;
        const range = document.createRange();
        const walker = document.createTreeWalker(this.paper, NodeFilter.SHOW_TEXT);
        let left = at;
        while (walker.nextNode()) {
            const node = /** @type {Text} */ (walker.currentNode);
            if (left < node.length) {
                range.setStart(node, left);
                range.setEnd(node, Math.min(node.length, left + 1));
                break;
            }
            left -= node.length;
        }
        const [word, box] = [range.getBoundingClientRect(), this.paper.getBoundingClientRect()];
        const most = Math.max(0, box.width - this.list.offsetWidth);
        this.list.style.left = `${Math.min(most, Math.max(0, word.left - box.left))}px`;
        this.list.style.top = `${word.bottom - box.top + 2}px`;
    }

    closeList() {
        clearTimeout(this.timers.get('words'));
        this.ask += 1; // an answer that is still under way is not wanted any more
        this.list.hidden = true;
        this.at = -1;
        this.field.setAttribute('aria-expanded', 'false');
        this.field.removeAttribute('aria-activedescendant');
    }

    /** @param {number} at */
    choose(at) {
        const options = [...this.list.children];
        this.at = at < 0 ? -1 : (at + options.length) % options.length;
        options.forEach((option, number) => option.setAttribute('aria-selected', String(number === this.at)));
        if (this.at < 0) {
            this.field.removeAttribute('aria-activedescendant');
        } else {
            this.field.setAttribute('aria-activedescendant', options[this.at].id);
            options[this.at].scrollIntoView({block: 'nearest'});
        }
    }

    /** @param {number} at which of the words */
    accept(at) {
        const {words, fragment} = this.model.get('offered');
        const end = this.field.selectionStart;
        this.field.setSelectionRange(end - fragment.length, end);
        this.insert(words[at]);
        this.closeList();
    }

    /** Put a text in place of the selection, so that Ctrl+Z takes it back. @param {string} text */
    insert(text) {
        if (!document.execCommand('insertText', false, text)) {
            this.field.setRangeText(text, this.field.selectionStart, this.field.selectionEnd, 'end');
            this.typed();
        }
    }

    /** Put another statement in place of the whole text. @param {string} text */
    replace(text) {
        const back = this.back;
        this.field.focus();
        this.field.select();
        this.insert(text);
        this.back = back;
        this.closeList();
    }

    /** @param {number} by 1 is one statement earlier */
    remember(by) {
        const {history} = this.shown;
        const to = Math.max(-1, Math.min(history.length - 1, this.back + by));
        if (to === this.back) {
            return;
        }
        if (this.back < 0) {
            this.draft = this.field.value;
        }
        this.back = to;
        this.replace(to < 0 ? this.draft : history[to]);
    }

    sendRun() {
        clearTimeout(this.timers.get('type'));
        this.closeList();
        this.note.textContent = 'Running…';
        this.model.send({do: 'run', text: this.field.value});
    }

    /** @param {KeyboardEvent} e */
    key(e) {
        e.stopPropagation();
        const isCommand = e.ctrlKey || e.metaKey;
        const isOpen = !this.list.hidden;
        /** @type {(() => void) | undefined} */
        let action;
        if (isCommand && e.key === 'Enter') {
            action = () => this.sendRun();
        } else if (isCommand && e.key === ' ') {
            action = () => this.askWords(true);
        } else if (e.altKey && ['ArrowUp', 'ArrowDown'].includes(e.key)) {
            action = () => this.remember(e.key === 'ArrowUp' ? 1 : -1);
        } else if (e.key === 'Escape') {
            action = () => this.closeList(); // JupyterLab would take the focus away
        } else if (isOpen && !isCommand && !e.altKey && !e.shiftKey) {
            action = {
                ArrowDown: () => this.choose(this.at + 1),
                ArrowUp: () => this.choose(this.at > 0 ? this.at - 1 : this.list.children.length - 1),
                Tab: () => this.accept(Math.max(0, this.at)),
                // a new line stays a new line, unless a word was chosen
                ...(this.at < 0 ? {} : {Enter: () => this.accept(this.at)}),
            }[e.key];
        }
        if (action) {
            e.preventDefault();
            action();
        }
    }
}

/** @param {{model: Model, el: HTMLElement}} given */
export function render({model, el}) {
    const editor = new Editor(model, el);
    return () => editor.close();
}

export default {render};
