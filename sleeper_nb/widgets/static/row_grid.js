// @ts-check
// The row grid in the page: it draws what the kernel sends, and sends what the user does. It decides nothing.
// All text of data becomes text nodes; nothing here is parsed as HTML. No network, no build step.

/**
 * @typedef {{name: string, type: string, role: string, number: boolean}} Column
 * @typedef {{
 *   serial: number, fetched: string[], rows: (string | null)[][], first: number, page: number, total: number | null,
 *   last: boolean, counts: string, search: string, sorts: {column: string, descending: boolean}[],
 *   typed: Record<string, string>, chosen: Record<string, number[]>, filtered: boolean, quick: boolean, bytes: string,
 * }} Shown
 * @typedef {{bars: string[], counts: number[], of: number[], nulls: string, chosen: number[]}} Header
 * @typedef {{serial: number, columns: Record<string, Header>}} Headers
 * @typedef {{text: string} | {text: string, items: [string, Node_][], more: string}} Node_
 * @typedef {{row: number, column: string, type: string, tree: Node_} | {}} Detail
 * @typedef {{
 *   get(name: string): any, on(name: string, call: () => void): void, off(name: string, call: () => void): void,
 *   send(content: object): void,
 * }} Model
 */

const WIDTH = 140;
const WIDTH_OF_TIMES = 180; // room for the seconds
const NARROWEST = 48;
const PAUSE = 350; // milliseconds after the last letter
const SIZES = [10, 20, 50, 100, 500];
const [NAME, BARS, FILTER, CELLS] = [0, 1, 2, 3]; // the rows through which the arrow keys move

/**
 * Which columns can be seen between two places.
 * @param {number[]} widths @param {number} left @param {number} right
 * @returns {[number, number, number]} the first, the one after the last, and where the first begins
 */
export function inSight(widths, left, right) {
    let [at, begin] = [0, 0];
    while (begin < widths.length - 1 && at + widths[begin] <= left) {
        at += widths[begin];
        begin += 1;
    }
    let [end, reached] = [begin, at];
    while (end < widths.length && reached < right) {
        reached += widths[end];
        end += 1;
    }
    return [begin, end, at];
}

/**
 * Make an element; a property that it does not have becomes an attribute. JupyterLab leaves it its keys.
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
    if ('tabIndex' in given || ['button', 'select', 'summary'].includes(tag)) {
        element.setAttribute('data-lm-suppress-shortcuts', 'true');
    }
    element.append(...inside);
    return element;
}

/** @param {Node_} node @param {string} [name] @returns {HTMLElement} a value as a tree that opens and closes */
function tree(node, name) {
    const label = name === undefined ? [] : [made('b', {}, `${name}: `)];
    if (!('items' in node)) {
        return made('div', {className: 'sleeper-grid-leaf'}, ...label, node.text);
    }
    const inner = node.items.map(([key, each]) => tree(each, key));
    const more = node.more ? [made('div', {}, node.more)] : [];
    return made('details', {open: true}, made('summary', {}, ...label, node.text), ...inner, ...more);
}

class Grid {
    /** @param {Model} model @param {HTMLElement} el */
    constructor(model, el) {
        this.model = model;
        /** @type {Map<string, number>} */
        this.widths = new Map();
        /** @type {Map<string, any>} */
        this.heads = new Map();
        /** @type {Set<string>} */
        this.asked = new Set();
        this.focus = {row: CELLS, column: 0};
        this.serial = -1;
        this.drawn = ''; // the columns in sight, with their widths, as the rows show them
        this.laid = ''; // the same of the headers
        /** @type {number[]} */
        this.numbers = [];
        this.fixedCount = 0;
        /** @type {any} */
        this.stop = null;
        this.timers = new Map();
        this.root = made('div', {className: 'sleeper-grid'});
        this.search = made('input', {
            type: 'search',
            placeholder: 'search text columns',
            'aria-label': 'Search in all columns of text',
        });
        this.search.addEventListener('input', () =>
            this.later('search', () => this.send('search', {text: this.search.value})),
        );
        this.search.addEventListener('keydown', (/** @type {KeyboardEvent} */ e) => {
            if (e.key === 'Enter') {
                this.now('search', () => this.send('search', {text: this.search.value}));
            }
        });
        /** @type {[string, string, () => number][]} */
        const steps = [
            ['«', 'First page', () => 0],
            ['‹', 'Previous page', () => this.shown.first - this.shown.page],
            ['›', 'Next page', () => this.shown.first + this.shown.page],
            ['»', 'Last page', () => this.lastFirst()],
        ];
        this.steps = steps.map(([text, name, to]) =>
            made(
                'button',
                {
                    type: 'button',
                    title: name,
                    'aria-label': name,
                    onclick: () => this.turn(to()),
                },
                text,
            ),
        );
        this.size = made('select', {
            'aria-label': 'Rows on a page',
            onchange: () => this.send('size', {rows: Number(this.size.value)}),
        });
        this.counts = made('span', {role: 'status', className: 'sleeper-grid-counts'});
        this.clear = made('button', {type: 'button', onclick: () => this.send('clear', {})}, 'Clear filters');
        this.summarize = made('button', {type: 'button', onclick: () => this.askHeaders(true)});
        this.note = made('span', {role: 'status', className: 'sleeper-grid-note'});
        this.head = made('thead');
        this.body = made('tbody');
        this.cols = made('colgroup');
        this.table = made('table', {role: 'grid', 'aria-label': 'Rows'}, this.cols, this.head, this.body);
        this.scroller = made('div', {className: 'sleeper-grid-scroller', onscroll: () => this.draw()}, this.table);
        this.panel = made('div', {
            className: 'sleeper-grid-detail',
            role: 'region',
            'aria-label': 'Value',
            hidden: true,
        });
        const bar = made(
            'div',
            {className: 'sleeper-grid-bar'},
            this.search,
            ...this.steps,
            this.size,
            this.counts,
            this.clear,
            this.summarize,
        );
        this.root.append(bar, this.scroller, this.note, this.panel);
        this.table.addEventListener('keydown', (/** @type {KeyboardEvent} */ e) => this.key(e));
        this.table.addEventListener('focusin', (/** @type {FocusEvent} */ e) => this.focused(e.target));
        this.body.addEventListener('dblclick', (/** @type {MouseEvent} */ e) => this.open(e.target));
        this.body.addEventListener('click', (/** @type {MouseEvent} */ e) => this.openIfCut(e.target));
        el.append(this.root);
        this.watches = /** @type {[string, () => void][]} */ ([
            [
                'change:columns',
                () => {
                    this.heads.clear();
                    this.update();
                },
            ],
            ['change:shown', () => this.update()],
            ['change:headers', () => this.fillHeads()],
            ['change:detail', () => this.showDetail()],
        ]);
        for (const [name, call] of this.watches) {
            model.on(name, call);
        }
        this.sight = new ResizeObserver(() => this.draw());
        this.sight.observe(this.scroller);
        this.update();
        this.showDetail();
    }

    close() {
        for (const [name, call] of this.watches) {
            this.model.off(name, call);
        }
        this.sight.disconnect();
        for (const timer of this.timers.values()) {
            clearTimeout(timer);
        }
    }

    /** @returns {Column[]} */
    get columns() {
        return this.model.get('columns');
    }

    /** @returns {Shown} */
    get shown() {
        return this.model.get('shown');
    }

    /** @param {string} action @param {object} content */
    send(action, content) {
        this.model.send({do: action, ...content});
    }

    /** @param {string} what @param {() => void} call */
    later(what, call) {
        clearTimeout(this.timers.get(what));
        this.timers.set(what, setTimeout(call, PAUSE));
    }

    /** @param {string} what @param {() => void} call */
    now(what, call) {
        clearTimeout(this.timers.get(what));
        call();
    }

    lastFirst() {
        const {total, page, first} = this.shown;
        return total === null ? first + page : Math.floor(Math.max(0, total - 1) / page) * page;
    }

    /** @param {number} first */
    turn(first) {
        const to = Math.max(0, this.shown.total === null ? first : Math.min(first, this.lastFirst()));
        if (to !== this.shown.first) {
            this.send('turn', {first: to});
        }
    }

    /** @param {number} column */
    width(column) {
        const {name, type} = this.columns[column];
        return this.widths.get(name) ?? (/^timestamp/i.test(type) ? WIDTH_OF_TIMES : WIDTH);
    }

    /** How many columns stay at the left: the keys, as far as they leave room for others. */
    pinned() {
        const keys = this.columns.findIndex(column => !column.role);
        let [count, used] = [0, 0];
        const most = this.scroller.clientWidth * 0.45;
        while (count < (keys < 0 ? this.columns.length : keys) && used + this.width(count) <= most) {
            used += this.width(count);
            count += 1;
        }
        return count;
    }

    update() {
        const shown = this.shown;
        if (!shown.fetched) {
            return;
        }
        if (this.serial !== shown.serial) {
            this.asked.clear();
            this.serial = shown.serial;
        }
        if (document.activeElement !== this.search) {
            this.search.value = shown.search;
        }
        this.counts.textContent = shown.counts;
        this.clear.hidden = !shown.filtered;
        this.summarize.hidden = shown.quick;
        this.summarize.textContent = `Show histograms (reads up to ${shown.bytes})`;
        this.steps.forEach((button, at) => {
            button.disabled = at < 2 ? shown.first === 0 : shown.last;
        });
        const sizes = [...new Set([...SIZES, shown.page])].sort((a, b) => a - b);
        this.size.replaceChildren(
            ...sizes.map(each => made('option', {value: each, selected: each === shown.page}, `${each} rows`)),
        );
        this.drawn = '';
        this.draw();
    }

    /** Draw the columns that can be seen; nothing happens when they are drawn already. */
    draw() {
        const {columns, shown} = this;
        if (!columns.length || !shown.fetched) {
            return;
        }
        const pinned = this.pinned();
        const fixed = columns.slice(0, pinned).reduce((sum, _, at) => sum + this.width(at), 0);
        const widths = columns.slice(pinned).map((_, at) => this.width(pinned + at));
        const left = this.scroller.scrollLeft;
        const [begin, end, before] = inSight(widths, left, left + Math.max(WIDTH, this.scroller.clientWidth - fixed));
        const numbers = [...Array(pinned).keys(), ...Array(end - begin).keys()].map((each, at) =>
            at < pinned ? each : each + pinned + begin,
        );
        const after = widths.slice(end).reduce((sum, each) => sum + each, 0);
        const drawn = JSON.stringify([numbers, numbers.map(each => this.width(each)), before, after]);
        if (drawn === this.drawn) {
            return;
        }
        const isLaid = this.laid === drawn;
        [this.drawn, this.laid, this.numbers, this.fixedCount] = [drawn, drawn, numbers, pinned];
        const had = this.table.contains(document.activeElement);
        if (!isLaid) {
            this.layOut(numbers, pinned, before, after);
        }
        for (const number of numbers) {
            this.fillHead(number);
        }
        this.fillBody(numbers, pinned);
        this.table.setAttribute('aria-colcount', String(columns.length));
        this.table.setAttribute('aria-rowcount', String(shown.total ?? -1));
        if (had && !this.table.contains(document.activeElement)) {
            this.moveTo(this.focus.row, this.focus.column);
        }
        this.setTabStop();
        const names = numbers.map(each => columns[each].name);
        if (names.some(name => !shown.fetched.includes(name))) {
            this.askColumns(numbers, pinned);
        }
        if (shown.quick) {
            this.later('headers', () => this.askHeaders(false));
        }
    }

    /** @param {number[]} numbers @param {number} pinned @param {number} before @param {number} after */
    layOut(numbers, pinned, before, after) {
        const widths = numbers.map(each => this.width(each));
        widths.splice(pinned, 0, before);
        widths.push(after);
        this.cols.replaceChildren(...widths.map(each => made('col', {style: `width: ${each}px`})));
        this.table.style.width = `${widths.reduce((sum, each) => sum + each, 0)}px`;
        const cells = numbers.map(each => this.headOf(each));
        this.stick(cells, pinned);
        cells.splice(pinned, 0, made('td', {'aria-hidden': 'true'}));
        this.head.replaceChildren(made('tr', {}, ...cells, made('td', {'aria-hidden': 'true'})));
    }

    /** @param {any[]} cells @param {number} pinned */
    stick(cells, pinned) {
        let at = 0;
        cells.forEach((cell, place) => {
            cell.classList.toggle('sleeper-grid-pinned', place < pinned);
            cell.style.left = place < pinned ? `${at}px` : '';
            at += this.width(this.numbers[place]);
        });
    }

    /** @param {number} number */
    headOf(number) {
        const column = this.columns[number];
        if (this.heads.has(column.name)) {
            return this.heads.get(column.name).cell;
        }
        const sort = made('button', {
            type: 'button',
            className: 'sleeper-grid-name',
            tabIndex: -1,
            title: `${column.name}: sort; Shift adds to other columns`,
            onclick: (/** @type {MouseEvent} */ e) => this.send('sort', {column: column.name, also: e.shiftKey}),
        });
        const bars = made('div', {
            className: 'sleeper-grid-bars',
            role: 'button',
            tabIndex: -1,
            'aria-label': `${column.name}: histogram`,
        });
        const nulls = made('button', {
            type: 'button',
            hidden: true,
            className: 'sleeper-grid-nulls',
            tabIndex: -1,
            title: `only rows where ${column.name} is NULL`,
            onclick: () => this.send('type', {column: column.name, text: 'null'}),
        });
        const filter = made('input', {
            type: 'text',
            placeholder: 'filter',
            tabIndex: -1,
            'aria-label': `Filter ${column.name}`,
            spellcheck: false,
        });
        const send = () => this.send('type', {column: column.name, text: filter.value});
        filter.addEventListener('input', () => this.later(`filter ${column.name}`, send));
        filter.addEventListener('keydown', (/** @type {KeyboardEvent} */ e) => {
            if (e.key === 'Enter') {
                this.now(`filter ${column.name}`, send);
            }
        });
        const handle = made('div', {className: 'sleeper-grid-handle', 'aria-hidden': 'true'});
        handle.addEventListener('pointerdown', (/** @type {PointerEvent} */ e) => this.resize(e, number));
        const role = made(
            'span',
            {className: 'sleeper-grid-type'},
            [column.type, column.role].filter(Boolean).join(' · '),
        );
        const cell = made('th', {scope: 'col'}, sort, role, bars, nulls, filter, handle);
        [sort, bars, filter].forEach((each, row) => {
            each.dataset.row = row;
            each.dataset.column = number;
        });
        this.heads.set(column.name, {cell, sort, bars, nulls, filter, chosen: [0, 0], isChoosing: false});
        this.brushing(column.name, bars);
        return cell;
    }

    /** @param {number} number */
    fillHead(number) {
        const {name} = this.columns[number];
        const head = this.heads.get(name);
        const {sorts, typed, chosen} = this.shown;
        const place = sorts.findIndex(each => each.column === name);
        const rank = sorts.length > 1 ? place + 1 : '';
        const arrow = place < 0 ? '' : `${sorts[place].descending ? ' ▼' : ' ▲'}${rank}`;
        head.sort.textContent = name + arrow;
        head.cell.setAttribute('aria-sort', place < 0 ? 'none' : sorts[place].descending ? 'descending' : 'ascending');
        head.cell.setAttribute('aria-colindex', String(number + 1));
        if (document.activeElement !== head.filter) {
            head.filter.value = typed[name] ?? '';
        }
        head.cell.classList.toggle('sleeper-grid-filtered', Boolean(typed[name]) || Boolean(chosen[name]));
        this.fillBars(name);
    }

    fillHeads() {
        for (const number of this.numbers) {
            this.fillBars(this.columns[number].name);
        }
    }

    /** @param {string} name */
    fillBars(name) {
        const head = this.heads.get(name);
        /** @type {Header | undefined} */
        const found = this.model.get('headers').columns?.[name];
        if (!found) {
            return;
        } // the bars of before stay until there are new ones
        head.nulls.textContent = found.nulls;
        head.nulls.hidden = !found.nulls;
        if (!found.bars.length) {
            head.bars.replaceChildren();
            head.bars.setAttribute('aria-disabled', 'true');
            return;
        }
        head.bars.removeAttribute('aria-disabled');
        const most = Math.max(...found.of, 1);
        const chosen = new Set(this.chosen(name));
        head.bars.replaceChildren(
            ...found.bars.map((label, at) => {
                const [of, count] = [found.of[at], found.counts[at]];
                const counted =
                    count === of
                        ? count.toLocaleString('en')
                        : `${count.toLocaleString('en')} of ${of.toLocaleString('en')}`;
                const bar = made('span', {className: 'sleeper-grid-bar-of', title: `${label}: ${counted} rows`});
                bar.append(
                    made('span', {style: `height: ${(100 * of) / most}%`}),
                    made('span', {style: `height: ${(100 * count) / most}%`}),
                );
                bar.classList.toggle('sleeper-grid-chosen', chosen.has(at));
                bar.dataset.bar = at;
                return bar;
            }),
        );
    }

    /** @param {number[]} numbers @param {number} pinned */
    fillBody(numbers, pinned) {
        const {shown, columns} = this;
        const places = new Map(shown.fetched.map((name, at) => [name, at]));
        this.body.replaceChildren(
            ...shown.rows.map((row, at) => {
                const cells = numbers.map(number => {
                    const place = places.get(columns[number].name);
                    const value = place === undefined ? '…' : row[place];
                    const cell = made('td', {tabIndex: -1, role: 'gridcell'}, value ?? 'NULL');
                    if (value === null) {
                        cell.classList.add('sleeper-grid-null');
                    }
                    if (columns[number].number) {
                        cell.classList.add('sleeper-grid-number');
                    }
                    cell.dataset.row = CELLS + at;
                    cell.dataset.column = number;
                    cell.setAttribute('aria-colindex', String(number + 1));
                    return cell;
                });
                this.stick(cells, pinned);
                cells.splice(pinned, 0, made('td', {'aria-hidden': 'true'}));
                return made(
                    'tr',
                    {'aria-rowindex': shown.first + at + 1},
                    ...cells,
                    made('td', {'aria-hidden': 'true'}),
                );
            }),
        );
    }

    /** Ask for the columns in sight, and for some around them. @param {number[]} numbers @param {number} pinned */
    askColumns(numbers, pinned) {
        const [begin, end] = [numbers[pinned] ?? pinned, numbers[numbers.length - 1] ?? pinned];
        const around = this.columns.slice(Math.max(pinned, begin - 8), end + 9).map(each => each.name);
        const names = [...this.columns.slice(0, pinned).map(each => each.name), ...around];
        this.later('columns', () => this.send('columns', {names}));
    }

    /** @param {boolean} force whether a large version is read too */
    askHeaders(force) {
        const known = this.model.get('headers');
        const current = known.serial === this.shown.serial ? known.columns : {};
        const names = this.numbers.map(each => this.columns[each].name);
        const missing = names.filter(name => !(name in current) && (force || !this.asked.has(name)));
        if (!missing.length) {
            return;
        }
        missing.forEach(name => this.asked.add(name));
        this.send('headers', {columns: missing, serial: this.shown.serial});
    }

    /** Let bars be chosen by a drag, and by keys. @param {string} name @param {HTMLElement} bars */
    brushing(name, bars) {
        const at = (/** @type {PointerEvent} */ e) => {
            const each = bars.getBoundingClientRect();
            return Math.min(
                bars.children.length - 1,
                Math.max(0, Math.floor(((e.clientX - each.left) / each.width) * bars.children.length)),
            );
        };
        bars.addEventListener('pointerdown', e => {
            if (!bars.children.length || e.button) {
                return;
            }
            const begin = at(e);
            bars.setPointerCapture(e.pointerId);
            const move = (/** @type {PointerEvent} */ to) => this.mark(name, begin, at(to));
            const end = (/** @type {PointerEvent} */ to) => {
                bars.removeEventListener('pointermove', move);
                bars.removeEventListener('pointerup', end);
                bars.removeEventListener('pointercancel', end);
                if (to.type === 'pointerup') {
                    this.choose(name, begin, at(to));
                } else {
                    this.fillBars(name);
                }
            };
            bars.addEventListener('pointermove', move);
            bars.addEventListener('pointerup', end);
            bars.addEventListener('pointercancel', end);
            this.mark(name, begin, begin);
        });
    }

    /** @param {string} name @param {number} begin @param {number} end */
    mark(name, begin, end) {
        const [low, high] = [Math.min(begin, end), Math.max(begin, end)];
        const head = this.heads.get(name);
        [...head.bars.children].forEach((bar, at) =>
            bar.classList.toggle('sleeper-grid-chosen', low <= at && at <= high),
        );
        const titles = [head.bars.children[low], head.bars.children[high]].map(bar => bar.title);
        this.note.textContent = `${name}: ${low === high ? titles[0] : titles.join(' … ')}`;
    }

    /** The bars by which rows are filtered. @param {string} name @returns {number[]} */
    chosen(name) {
        return (
            (name in this.shown.chosen && this.model.get('headers').columns?.[name]?.chosen) ||
            (this.shown.chosen[name] ?? [])
        );
    }

    /** Filter by some bars; by none when they are chosen already.
     * @param {string} name @param {number} begin @param {number} end */
    choose(name, begin, end) {
        const now = this.chosen(name);
        const [low, high] = [Math.min(begin, end), Math.max(begin, end)];
        const isSame = now.length === high - low + 1 && now[0] === low;
        this.send('choose', {column: name, bars: isSame ? [] : [low, high]});
    }

    /** @param {PointerEvent} e @param {number} number */
    resize(e, number) {
        e.preventDefault();
        const [from, width] = [e.clientX, this.width(number)];
        const handle = /** @type {HTMLElement} */ (e.target);
        handle.setPointerCapture(e.pointerId);
        const move = (/** @type {PointerEvent} */ to) => this.widen(number, width + to.clientX - from);
        const end = () => {
            handle.removeEventListener('pointermove', move);
            handle.removeEventListener('pointerup', end);
        };
        handle.addEventListener('pointermove', move);
        handle.addEventListener('pointerup', end);
    }

    /** @param {number} number @param {number} width */
    widen(number, width) {
        this.widths.set(this.columns[number].name, Math.max(NARROWEST, Math.round(width)));
        this.draw();
    }

    /** @param {any} target @returns {any} the element that the arrow keys are at */
    placeOf(target) {
        return target.closest('[data-row]');
    }

    /** @param {any} target */
    focused(target) {
        const place = this.placeOf(target);
        if (place) {
            this.focus = {row: Number(place.dataset.row), column: Number(place.dataset.column)};
            this.setTabStop();
        }
    }

    /** @param {number} row @param {number} column */
    at(row, column) {
        return this.table.querySelector(`[data-row="${row}"][data-column="${column}"]`);
    }

    /** One place of the table is in the order of the Tab key: the one where the user was last. */
    setTabStop() {
        this.stop?.setAttribute('tabindex', '-1');
        const last = CELLS + this.shown.rows.length - 1;
        const row = Math.min(this.focus.row, Math.max(last, FILTER));
        this.stop = this.at(row, this.focus.column) ?? this.at(row, this.numbers[0] ?? 0);
        this.stop?.setAttribute('tabindex', '0');
    }

    /** @param {number} row @param {number} column */
    moveTo(row, column) {
        const last = CELLS + this.shown.rows.length - 1;
        this.focus = {
            row: Math.max(0, Math.min(row, last)),
            column: Math.max(0, Math.min(column, this.columns.length - 1)),
        };
        this.scrollTo(this.focus.column);
        this.draw();
        this.at(this.focus.row, this.focus.column)?.focus({preventScroll: false});
    }

    /** Bring a column into sight. @param {number} column */
    scrollTo(column) {
        const pinned = this.fixedCount;
        if (column < pinned) {
            return;
        }
        const sum = (/** @type {number} */ from, /** @type {number} */ to) => {
            let all = 0;
            for (let each = from; each < to; each += 1) {
                all += this.width(each);
            }
            return all;
        };
        const [left, room] = [sum(pinned, column), this.scroller.clientWidth - sum(0, pinned)];
        if (left < this.scroller.scrollLeft) {
            this.scroller.scrollLeft = left;
        }
        if (left + this.width(column) > this.scroller.scrollLeft + room) {
            this.scroller.scrollLeft = left + this.width(column) - room;
        }
    }

    /** @param {KeyboardEvent} e */
    key(e) {
        const place = this.placeOf(e.target);
        if (!place) {
            return;
        }
        const [row, column] = [Number(place.dataset.row), Number(place.dataset.column)];
        if (row === BARS && this.chooseByKey(e, this.columns[column].name)) {
            e.preventDefault();
            return;
        }
        const isText = row === FILTER && ['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(e.key);
        if (isText || e.altKey || e.metaKey) {
            return;
        }
        const last = this.columns.length - 1;
        /** @type {Record<string, () => void>} */
        const moves = e.ctrlKey
            ? {
                  Home: () => this.turn(0),
                  End: () => this.turn(this.lastFirst()),
              }
            : {
                  ArrowLeft: () =>
                      row === NAME && e.shiftKey
                          ? this.widen(column, this.width(column) - 16)
                          : this.moveTo(row, column - 1),
                  ArrowRight: () =>
                      row === NAME && e.shiftKey
                          ? this.widen(column, this.width(column) + 16)
                          : this.moveTo(row, column + 1),
                  ArrowUp: () => this.moveTo(row - 1, column),
                  ArrowDown: () => this.moveTo(row + 1, column),
                  Home: () => this.moveTo(row, 0),
                  End: () => this.moveTo(row, last),
                  PageUp: () => this.turn(this.shown.first - this.shown.page),
                  PageDown: () => this.turn(this.shown.first + this.shown.page),
                  Escape: () => {
                      this.panel.hidden = true;
                  },
              };
        if (row >= CELLS) {
            moves.Enter = () => this.open(place);
            moves[' '] = moves.Enter;
        }
        if (row === FILTER) {
            moves.Escape = () => this.moveTo(CELLS, column);
        }
        const move = moves[e.key];
        if (move) {
            e.preventDefault();
            move();
        }
    }

    /** Enter begins to choose bars, arrow keys move, with Shift they extend, Enter filters.
     * @param {KeyboardEvent} e @param {string} name */
    chooseByKey(e, name) {
        const head = this.heads.get(name);
        const last = head.bars.children.length - 1;
        if (last < 0 || ['Shift', 'Control', 'Alt', 'Meta'].includes(e.key)) {
            return false;
        }
        if (!head.isChoosing) {
            if (e.key === 'Delete') {
                this.send('choose', {column: name, bars: []});
                return true;
            }
            if (e.key !== 'Enter' && e.key !== ' ') {
                return false;
            }
            const now = this.chosen(name);
            [head.isChoosing, head.chosen] = [true, [now[0] ?? 0, now[now.length - 1] ?? 0]];
        } else if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') {
            const to = Math.max(0, Math.min(last, head.chosen[1] + (e.key === 'ArrowLeft' ? -1 : 1)));
            head.chosen = [e.shiftKey ? head.chosen[0] : to, to];
        } else if (e.key === 'Enter' || e.key === ' ') {
            head.isChoosing = false;
            this.choose(name, head.chosen[0], head.chosen[1]);
            return true;
        } else {
            head.isChoosing = false;
            this.fillBars(name);
            return e.key === 'Escape';
        }
        this.mark(name, head.chosen[0], head.chosen[1]);
        return true;
    }

    /** @param {any} target */
    open(target) {
        const cell = target.closest('td[data-row]');
        if (cell) {
            this.send('open', {
                row: Number(cell.dataset.row) - CELLS,
                column: this.columns[Number(cell.dataset.column)].name,
            });
        }
    }

    /** A touch screen has no double click: one opens what is longer than its cell. @param {any} target */
    openIfCut(target) {
        const cell = target.closest('td[data-row]');
        if (cell && cell.scrollWidth > cell.clientWidth) {
            this.open(cell);
        }
    }

    showDetail() {
        const detail = this.model.get('detail');
        this.panel.hidden = !('tree' in detail);
        if (this.panel.hidden) {
            return;
        }
        const close = made(
            'button',
            {
                type: 'button',
                onclick: () => {
                    this.panel.hidden = true;
                    this.moveTo(this.focus.row, this.focus.column);
                },
            },
            'Close',
        );
        const title = `${detail.column} (${detail.type}), row ${(detail.row + 1).toLocaleString('en')}`;
        this.panel.replaceChildren(made('div', {}, made('b', {}, title), ' ', close), tree(detail.tree));
    }
}

/** @param {{model: Model, el: HTMLElement}} given */
export function render({model, el}) {
    const grid = new Grid(model, el);
    return () => grid.close();
}

export default {render};
